use super::*;
use crate::exit::Program;
use crate::shutdown::Shutdown;
use asgc_core::ids::WorkerId;
use std::collections::BTreeMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PROGRAM: Program = Program {
    name: "asgc-test",
    version: "1.2.3",
};

type Sample = (String, BTreeMap<String, String>, f64);

/// A strict reader of the text format: whatever it does not know is an error.
fn parse(page: &str) -> Result<Vec<Sample>, String> {
    let mut samples = Vec::new();
    assert!(page.ends_with('\n'), "the last line must end");
    for line in page.split('\n').filter(|line| !line.is_empty()) {
        if line.starts_with("# HELP ") || line.starts_with("# TYPE ") {
            continue;
        }
        samples.push(sample(line).ok_or_else(|| format!("not a sample: {line:?}"))?);
    }
    Ok(samples)
}

fn sample(line: &str) -> Option<Sample> {
    let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.insert(label.to_owned(), value);
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ')?.parse().ok()?;
    (!name.is_empty()).then(|| (name.to_owned(), labels, value))
}

fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('"' | '\\') => c,
                _ => return None,
            }),
            (_, c) => value.push(c),
        }
    }
}

#[test]
fn hostile_label_values_round_trip() {
    let registry = Registry::new(PROGRAM).unwrap();
    let family = registry
        .counters("asgc_hostile_total", "Says \\ and \"\nand more.", &["run"])
        .unwrap();
    let long = "x".repeat(300);
    let hostile = [
        "\"",
        "\\",
        "a\nb",
        "\t",
        "\u{1f980}",
        "}",
        "{a=\"b\"}",
        "\\n",
        " ",
        "",
        "a\rb",
        long.as_str(),
    ];
    for value in hostile {
        family.with_label_values(&[value]).inc();
    }
    let samples = parse(&registry.encode().unwrap()).unwrap();
    let mut seen: Vec<_> = samples
        .iter()
        .filter(|s| s.0 == "asgc_hostile_total")
        .map(|s| s.1["run"].as_str())
        .collect();
    seen.sort_unstable();
    let mut expect = hostile.to_vec();
    expect.sort_unstable();
    assert_eq!(seen, expect);
}

#[test]
fn build_and_process_are_described() {
    let registry = Registry::new(PROGRAM).unwrap();
    let samples = parse(&registry.encode().unwrap()).unwrap();
    let build = samples.iter().find(|s| s.0 == "asgc_build_info").unwrap();
    assert_eq!(
        (build.1["version"].as_str(), build.1["program"].as_str(), build.2),
        ("1.2.3", "asgc-test", 1.0)
    );
    let resident = samples
        .iter()
        .find(|s| s.0 == "process_resident_memory_bytes")
        .unwrap();
    assert!(resident.2 > 1e5, "{}", resident.2);
    assert!(registry.counter("asgc_x_total", "X.").is_ok());
    assert!(
        registry.counter("asgc_x_total", "X.").is_err(),
        "a name is taken once"
    );
}

#[test]
fn workers_beyond_the_bound_share_a_label_and_places_are_freed() {
    let labels = WorkerLabels::new(2);
    let value = |id| labels.value(WorkerId(id)).to_string();
    assert_eq!([value(7), value(0), value(3), value(7)], ["7", "0", "other", "7"]);
    assert_eq!(labels.forget(WorkerId(3)), None);
    assert_eq!(labels.forget(WorkerId(7)).as_deref(), Some("7"));
    assert_eq!([value(3), value(7)], ["3", "other"]);
    assert_eq!(WorkerLabels::new(0).value(WorkerId(1)).as_ref(), OTHER);
}

#[test]
fn five_hundred_short_lives_leave_no_series_behind() {
    let registry = Registry::new(PROGRAM).unwrap();
    let family = registry
        .counters("asgc_pushes_total", "Pushes.", &["worker"])
        .unwrap();
    let labels = WorkerLabels::new(4);
    for id in 0..500 {
        let label = labels.value(WorkerId(id));
        family.with_label_values(&[&*label]).inc();
        if let Some(label) = labels.forget(WorkerId(id)) {
            family.remove_label_values(&[&*label]).unwrap();
        }
    }
    assert!(!registry.encode().unwrap().contains("asgc_pushes_total"));
}

/// Status code and body of one request over a connection of its own.
async fn get(endpoint: std::net::SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(endpoint).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn the_endpoint_tells_life_from_readiness_and_ends_when_asked() {
    let health = Health::new();
    let registry = Registry::new(PROGRAM).unwrap();
    let endpoint = Endpoint::bind("127.0.0.1:0", registry, health.clone())
        .await
        .unwrap();
    let (address, shutdown) = (endpoint.local_addr(), Shutdown::new());
    let serving = tokio::spawn(endpoint.run(shutdown.clone()));

    assert_eq!(get(address, "/healthz").await, (200, "ok\n".into()));
    assert_eq!(
        get(address, "/readyz").await,
        (503, "not ready: starting\n".into())
    );
    health.set_not_ready("waiting for 2 of 3 workers");
    assert_eq!(
        get(address, "/readyz").await,
        (503, "not ready: waiting for 2 of 3 workers\n".into())
    );
    health.set_ready();
    assert_eq!(get(address, "/readyz").await, (200, "ready\n".into()));
    health.drain();
    health.set_ready();
    assert_eq!(
        get(address, "/readyz").await,
        (503, "not ready: draining\n".into())
    );
    let (code, page) = get(address, "/metrics").await;
    assert_eq!(code, 200);
    assert!(parse(&page).unwrap().iter().any(|s| s.0 == "asgc_build_info"));
    assert_eq!(get(address, "/nothing").await.0, 404);

    shutdown.request();
    serving.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_taken_address_is_named() {
    let bind = async |at: &str| Endpoint::bind(at, Registry::new(PROGRAM).unwrap(), Health::new()).await;
    let first = bind("127.0.0.1:0").await.unwrap();
    let at = first.local_addr().to_string();
    let error = bind(&at).await.unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("telemetry.metrics_listen {at}: Address already in use")),
        "{error}"
    );
    assert!(bind("nonsense").await.is_err());
}
