//! Reports of runs that are made up, sound and not.

use super::*;
use crate::samples;
use asgc_core::event::Event;
use proptest::prelude::*;
use resvg::usvg::{Options, Tree};

/// A run with evaluations, rejections and decisions, under any name.
fn events(name: &str, seed: u64, reason: &str) -> Vec<Event> {
    let mut events = samples::run();
    let mut control = samples::control((0.25, 0.2), (4, 5));
    control.reason = reason.to_owned();
    control.elapsed_s = 2.5;
    let last = events.len() - 1;
    events.insert(last, Event::Control(control));
    for event in &mut events {
        if let Event::RunStart(start) = event {
            (start.config_name, start.seed) = (name.to_owned(), seed);
        }
    }
    events
}

fn run(name: &str, seed: u64) -> Run {
    Run::of(&events(name, seed, "hold"), name.to_owned())
}

fn files(runs: &[Run]) -> (tempfile::TempDir, Vec<PathBuf>) {
    let dir = tempfile::tempdir().unwrap();
    let files = write(runs, dir.path(), None).unwrap();
    (dir, files)
}

fn page_of(runs: &[Run]) -> String {
    let (_dir, files) = files(runs);
    fs::read_to_string(&files[0]).unwrap()
}

/// The page is a file of its own: nothing in it leads outside.
fn assert_alone(page: &str) {
    let inner = page.replace("http://www.w3.org/2000/svg", "");
    for way in [
        "http:", "https:", "src=", "@import", "url(", "<script", "<link", "<iframe",
    ] {
        assert!(!inner.contains(way), "{way} in the page");
    }
}

#[test]
fn every_plot_is_in_the_page_and_lies_beside_it() {
    let (_dir, files) = files(&[run("a", 0), run("b", 0)]);
    let page = fs::read_to_string(&files[0]).unwrap();
    assert_alone(&page);
    let plots = files
        .iter()
        .filter(|file| file.extension().is_some_and(|e| e == "svg"));
    let ids = plots
        .map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect::<Vec<_>>();
    for id in [
        "accuracy_vs_time",
        "loss_vs_time",
        "accuracy_vs_bytes",
        "loss_vs_bytes",
        "bytes_vs_accuracy",
        "staleness_distribution",
        "staleness_vs_rejection",
        "throughput_vs_delay",
        "compression_over_time",
        "staleness_bound_over_time",
        "timeline_1",
        "timeline_2",
    ] {
        assert!(ids.iter().any(|found| found == id), "no {id}.svg");
        assert!(
            page.contains(&format!("data-plot=\"{id}\"")),
            "no {id} in the page"
        );
    }
    assert_eq!(page.matches("data-plot=").count(), ids.len());
    assert_eq!(
        page.matches("role=\"img\"><title>").count(),
        ids.len(),
        "each says what it is"
    );
}

#[test]
fn files_are_sound() {
    let (_dir, files) = files(&[run("a", 0)]);
    for file in files {
        let bytes = fs::read(&file).unwrap();
        match file.extension().and_then(|e| e.to_str()) {
            Some("svg") => {
                let tree = Tree::from_data(&bytes, &Options::default()).unwrap();
                assert!(tree.size().width() == 960.0, "{}", file.display());
                assert!(
                    !String::from_utf8(bytes).unwrap().contains("var("),
                    "colours of the page in a file"
                );
            }
            Some("png") => {
                assert_eq!(bytes[..8], *b"\x89PNG\r\n\x1a\n");
                assert_eq!(u32::from_be_bytes(bytes[16..20].try_into().unwrap()), 1200);
            }
            _ => assert!(!bytes.is_empty()),
        }
    }
}

#[test]
fn colours_follow_the_theme() {
    let page = page_of(&[run("a", 0)]);
    assert!(page.contains("stroke=\"var(--s0)\"") && page.contains("var(--text)"));
    assert!(page.contains("prefers-color-scheme:dark"));
    assert!(!page.contains("#0164"), "a marker colour was left");
}

#[test]
fn seeds_of_a_configuration_share_a_colour_and_a_name() {
    let runs = [run("a_s0", 0), run("a_s1", 1), run("b_s0", 0)];
    let figure = &figure::figures(&runs, None)[0];
    let seen = figure
        .series
        .iter()
        .map(|s| (s.label.as_str(), s.colour))
        .collect::<Vec<_>>();
    assert_eq!(seen, [("a", 0), ("", 0), ("b", 1)]);
    assert_eq!(
        draw(&runs, None)
            .unwrap()
            .iter()
            .filter(|d| d.id.starts_with("timeline"))
            .count(),
        2
    );
}

/// Pushes of the sample up to the one that made this version.
fn samples_before(version: u64) -> f64 {
    let events = samples::run();
    let updates = events.iter().filter_map(|event| match event {
        Event::Update(update) => Some(update),
        _ => None,
    });
    let made = updates
        .enumerate()
        .find(|(_, update)| update.version.0 == version);
    made.map_or(0.0, |(before, _)| before as f64 + 1.0)
}

#[test]
fn evaluations_know_what_they_had_cost() {
    let run = Run::of(&samples::run(), "a".into());
    let cost = run
        .measured
        .iter()
        .map(|m| (m.accuracy, m.bytes))
        .collect::<Vec<_>>();
    // Each push was of 100 bytes, and a version has cost what was pushed up to it.
    assert_eq!(cost[0].1, 100.0 * samples_before(run.summary.evals[0].version.0));
    assert!(cost.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{cost:?}");
    assert!(cost.last().unwrap().1 <= run.summary.payload_bytes() as f64);
}

#[test]
fn the_table_has_the_references_columns_first() {
    let text = String::from_utf8(csv::csv(&[run("a", 3)], None).unwrap()).unwrap();
    let lines = text.lines().collect::<Vec<_>>();
    assert_eq!(
        lines[0],
        "run,dataset,final_accuracy,final_loss,applied,rejected_frac,total_gb,compression_ratio,updates_per_sec,\
         mean_staleness,max_staleness,max_acc_drop,wall_s,time_to_target_s,model,mode,compression,error_feedback,seed,\
         simulated,train_loss,bytes_per_update,sync_idle_s,sync_idle_share,communication_share,divergence_events,\
         downweighted_frac,received_gb,downlink_gb,ended"
    );
    assert!(
        lines[1].starts_with(
            "a,fashion_mnist,0.8600,0.4000,3,0.2500,0.000,2.000,0.750,2.500,7,0.0000,4.00,2.00,"
        ),
        "{}",
        lines[1]
    );
    let empty = String::from_utf8(csv::csv(&[Run::default()], None).unwrap()).unwrap();
    assert!(
        empty.lines().nth(1).unwrap().starts_with(",-,-,-,0,-,0.000,-,"),
        "{empty}"
    );
}

#[test]
fn figures_that_the_reference_named_but_never_computed() {
    let mut events = samples::run();
    for event in &mut events {
        if let Event::Update(update) = event {
            update.pull_held_s = 0.5;
        }
    }
    let run = Run::of(&events, "a".into());
    assert_eq!(
        (run.sync_idle_s, run.sync_idle_share()),
        (2.0, Some(2.0 / (2.0 * 4.0)))
    );
    assert_eq!(run.bytes_per_update(), Some(400.0 / 3.0));
    // Of three applied updates the last tenth is one of them.
    assert_eq!(run.train_loss, Some(2.0));
    assert_eq!(run.divergence_events(), 0);
}

#[test]
fn falls_and_lost_losses_are_divergence() {
    let mut events = samples::run();
    let mut eval = events.iter().rev().find_map(|event| match event {
        Event::Eval(eval) => Some(eval.clone()),
        _ => None,
    });
    let eval = eval.as_mut().unwrap();
    (eval.test_accuracy, eval.test_loss) = (0.5, f64::NAN);
    events.push(Event::Eval(eval.clone()));
    let run = Run::of(&events, "a".into());
    assert_eq!(
        run.divergence_events(),
        2,
        "a fall of 36 points, and a loss that is none"
    );
    assert_alone(&page_of(&[run]));
}

#[test]
fn what_the_logs_do_not_say_is_said() {
    for runs in [
        vec![],
        vec![Run::default()],
        vec![Run::of(&samples::run()[..1], "begun".into())],
    ] {
        let page = page_of(&runs);
        assert!(
            page.contains("these logs say nothing about it"),
            "{} runs",
            runs.len()
        );
        assert!(page.contains("data-plot=\"accuracy_vs_time\""));
    }
}

#[test]
fn many_runs_fit() {
    let runs = (0..40)
        .map(|i| run(&format!("a-rather-long-name-of-run-{i}"), 0))
        .collect::<Vec<_>>();
    let page = page_of(&runs);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert!(
        page.contains("and 22 more") || page.contains(" more</text>") || page.contains(" more\n"),
        "the legend is cut"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Names and reasons come from files that anybody may have written.
    #[test]
    fn hostile_text_stays_text(name in "\\PC{1,60}|[<>&\"'\\x00-\\x1f]{1,20}|<script>.{0,20}", reason in any::<String>()) {
        let run = Run::of(&events(&name, 0, &reason), name.clone());
        let (_dir, files) = files(&[run]);
        let page = fs::read_to_string(&files[0]).unwrap();
        prop_assert!(!page.contains("<script"), "{name:?}");
        for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "svg")) {
            Tree::from_data(&fs::read(file).unwrap(), &Options::default()).unwrap();
        }
    }

    /// Whatever numbers a log holds, a plot is drawn or says that there is none.
    #[test]
    fn any_numbers_can_be_drawn(points in proptest::collection::vec((any::<f64>(), any::<f64>()), 0..40)) {
        let drawn = chart("title", ["x", "y"], vec![("series".into(), points.clone())]);
        prop_assert!(drawn.is_ok(), "{points:?}");
    }
}
