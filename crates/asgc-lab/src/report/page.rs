//! The page: one file that needs nothing else.

use super::chart::tick;
use super::run::Run;
use super::theme;
use super::{Drawn, figure};
use crate::units::{self, MISSING, or_missing};
use std::fmt::Write as _;

/// Of a controller's decisions, those that are listed.
const DECISIONS: usize = 200;

const STYLE: &str = "
body{margin:0 auto;max-width:1100px;padding:1.5rem 1rem 4rem;font:16px/1.5 system-ui,sans-serif;\
background:var(--ground);color:var(--text)}
h1{font-size:1.6rem;margin:0 0 .3rem}h2{font-size:1.15rem;margin:2.4rem 0 .2rem}
p{margin:.2rem 0 .6rem}.note{color:var(--soft)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}
th,td{padding:.3rem .7rem;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}
th:first-child,td:first-child,.left{text-align:left}thead th{vertical-align:bottom}
figure{margin:0}svg{width:100%;height:auto;min-width:560px}svg text{font-family:system-ui,sans-serif}
.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.45em}
nav{font-size:.9rem}nav a{margin-right:.9rem;white-space:nowrap}a{color:var(--s0)}
details{margin:.5rem 0}summary{cursor:pointer}";

/// What stands in the page's head.
fn head() -> String {
    let (light, dark) = (theme::variables(false), theme::variables(true));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>asgc report</title><style>\
         :root{{{light}--ground:#fff;--soft:#59636e}}\
         @media(prefers-color-scheme:dark){{:root{{{dark}--ground:#16181c;--soft:#9aa4ae}}}}{STYLE}</style></head><body>\n"
    )
}

/// The whole page.
pub(super) fn page(runs: &[Run], drawn: &[Drawn], target: Option<f64>) -> String {
    let mut html = head();
    let simulated = runs.iter().filter(|run| is_simulated(run)).count();
    let kind = match simulated {
        0 => "Real time: measured by the server's clock.".to_owned(),
        n if n == runs.len() => "Virtual time: these runs were simulated.".to_owned(),
        n => format!(
            "{n} of {} runs were simulated: their time is virtual.",
            runs.len()
        ),
    };
    let _ = write!(
        html,
        "<h1>asgc report</h1><p class=\"note\">{} runs. {kind}</p>",
        runs.len()
    );
    html += "<nav aria-label=\"Plots\">";
    for drawn in drawn {
        let _ = write!(html, "<a href=\"#{}\">{}</a> ", drawn.id, escape(&drawn.title));
    }
    html += "</nav>";
    table(&mut html, runs, target);
    for drawn in drawn {
        let (id, title, note) = (&drawn.id, escape(&drawn.title), escape(&drawn.note));
        let svg = theme::for_page(&accessible(&drawn.svg, &title, &note));
        let _ = write!(
            html,
            "<h2 id=\"{id}\">{title}</h2><p class=\"note\">{note}</p><figure class=\"wide\" data-plot=\"{id}\">{svg}</figure>"
        );
    }
    decisions(&mut html, runs);
    html + "</body></html>\n"
}

fn is_simulated(run: &Run) -> bool {
    run.summary.start.as_ref().is_some_and(|start| start.simulated)
}

/// Scales with the page, and says what it is to whoever cannot see it.
fn accessible(svg: &str, title: &str, note: &str) -> String {
    let Some(end) = svg.find('>') else {
        return svg.to_owned();
    };
    let opening = svg[..end]
        .split_once(" width=")
        .map_or(&svg[..end], |(tag, _)| tag);
    let rest = svg[..end].find("viewBox").map_or("", |at| &svg[at..end]);
    format!(
        "{opening} {rest} role=\"img\"><title>{title}</title><desc>{note}</desc>{}",
        &svg[end + 1..]
    )
}

type Cell = fn(&Run, Option<f64>) -> String;

const CELLS: [(&str, Cell); 16] = [
    ("strategy", |r, _| r.strategy()),
    ("accuracy", |r, _| {
        or_missing(r.summary.accuracy(), units::accuracy)
    }),
    ("test loss", |r, _| {
        or_missing(r.summary.loss(), |loss| format!("{loss:.4}"))
    }),
    ("training loss", |r, _| {
        or_missing(r.train_loss, |loss| format!("{loss:.4}"))
    }),
    ("time to target", |r, target| {
        or_missing(r.summary.time_to_target(target), units::seconds)
    }),
    ("wall time", |r, _| units::seconds(r.summary.wall_s())),
    ("updates", |r, _| r.summary.applied().to_string()),
    ("updates/s", |r, _| {
        or_missing(r.summary.updates_per_s(), |rate| format!("{rate:.2}"))
    }),
    ("payload", |r, _| units::bytes(r.summary.payload_bytes())),
    ("ratio", |r, _| {
        or_missing(r.summary.compression_ratio(), |ratio| format!("{ratio:.2}"))
    }),
    ("staleness, mean / max", |r, _| {
        let both = r.summary.mean_staleness().zip(r.summary.max_staleness());
        or_missing(both, |(mean, max)| format!("{mean:.2} / {max}"))
    }),
    ("rejected", |r, _| {
        or_missing(r.summary.rejected_share(), units::percent)
    }),
    ("idle for others", |r, _| {
        or_missing(r.sync_idle_share(), units::percent)
    }),
    ("communicating", |r, _| {
        or_missing(r.communicating, units::percent)
    }),
    ("divergence events", |r, _| r.divergence_events().to_string()),
    ("largest accuracy drop", |r, _| {
        or_missing(r.summary.max_accuracy_drop(), units::accuracy)
    }),
];

fn table(html: &mut String, runs: &[Run], target: Option<f64>) {
    let colours = figure::colours(runs);
    *html += "<h2 id=\"summary\">Summary</h2><div class=\"wide\"><table><thead><tr><th>run</th>";
    for (title, _) in CELLS {
        let class = if title == "strategy" {
            " class=\"left\""
        } else {
            ""
        };
        let _ = write!(html, "<th{class}>{title}</th>");
    }
    *html += "</tr></thead><tbody>";
    for run in runs {
        let colour = colours.get(run.group()).copied().unwrap_or(0) % 8;
        let name = escape(&run.label);
        let _ = write!(
            html,
            "<tr><td><span class=\"key\" style=\"background:var(--s{colour})\"></span>{name}</td>"
        );
        for (title, cell) in CELLS {
            let class = if title == "strategy" {
                " class=\"left\""
            } else {
                ""
            };
            let _ = write!(html, "<td{class}>{}</td>", escape(&cell(run, target)));
        }
        *html += "</tr>";
    }
    *html += "</tbody></table></div>";
}

fn decisions(html: &mut String, runs: &[Run]) {
    for run in runs.iter().filter(|run| !run.controls.is_empty()) {
        let (name, number) = (escape(&run.label), run.controls.len());
        let _ = write!(
            html,
            "<details><summary>{name}: {number} decisions of the controller</summary><div class=\"wide\"><table><thead><tr>\
             <th>time</th><th>compression</th><th>s_max</th><th>rejected</th><th class=\"left\">reason</th></tr></thead><tbody>"
        );
        for control in run.controls.iter().take(DECISIONS) {
            let strength = control.old_compression.zip(control.new_compression);
            let strength = strength.map_or(MISSING.into(), |(old, new)| {
                format!("{} → {}", tick(old), tick(new))
            });
            let _ = write!(
                html,
                "<tr><td>{}</td><td>{strength}</td><td>{} → {}</td><td>{}</td><td class=\"left\">{}</td></tr>",
                units::seconds(control.elapsed_s),
                control.old_s_max,
                control.new_s_max,
                units::percent(control.rejected_frac),
                escape(&control.reason)
            );
        }
        *html += "</tbody></table></div>";
        if number > DECISIONS {
            let _ = write!(html, "<p class=\"note\">The first {DECISIONS} of {number}.</p>");
        }
        *html += "</details>";
    }
}

/// Whatever comes from a log is text, never markup.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            '\u{fffe}' | '\u{ffff}' => escaped.push(' '),
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}
