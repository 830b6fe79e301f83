//! Peers that break the protocol: each gets its clear answer, and honest workers train on.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use asgc_core::config::Role;
use asgc_core::event::{Decision, Event, RejectReason, Update};
use asgc_core::layout::{Layout, TensorSpec};
use asgc_proto::v1;
use asgc_tests::raw::{self, Kind, Peer, Said, chunk, join_request, push};
use asgc_tests::server::{updates, updates_of};
use asgc_tests::wait::until;
use asgc_tests::{Honest, Quadratic, TestServer, truth};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use tonic::Code;

/// A run with an honest worker in it, which is worker 0.
struct Scene {
    server: TestServer,
    honest: Honest,
    layout: Layout,
}

impl Scene {
    async fn start() -> Self {
        let task = Quadratic::small();
        let server = TestServer::start(&[
            ("workload.max_updates", "200"),
            ("workload.num_workers", "2"),
            ("workload.eval_interval", "5"),
            ("server.chunk_bytes", "1024"),
        ]);
        let mut honest = Honest::join(&server.url(), task).await;
        honest.steps(3).await;
        Self {
            server,
            honest,
            layout: task.tensors(),
        }
    }

    /// Trains on to the end; the log must be true and tell of all updates.
    async fn finish(mut self) -> Vec<Event> {
        self.honest.train_to_the_end().await;
        let events = self.server.finished();
        let (sums, end) = truth::check(&events);
        assert_eq!(
            (sums.version, end.reason.as_str()),
            (200, "max_updates = 200 reached")
        );
        events
    }

    async fn trainer(&self) -> Peer {
        Peer::trainer(&self.server.url(), &self.layout, 77).await
    }

    /// What is pushed from: the current version, by the server's own word.
    async fn current(&mut self, peer: &mut Peer) -> (u64, u64) {
        peer.pull().await.at
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_layout_is_refused_naming_the_tensor() {
    let scene = Scene::start().await;
    let spec = |name: &str, shape: &[usize]| TensorSpec {
        name: name.into(),
        shape: shape.to_vec(),
    };
    let weight = || spec("layer.weight", &[8, 4]);
    for (specs, words) in [
        (
            vec![spec("layer.weight", &[4, 8]), spec("layer.bias", &[8])],
            "tensor 0 is `layer.weight` [4, 8]",
        ),
        (
            vec![weight(), spec("layer.offset", &[8])],
            "tensor 1 is `layer.offset` [8]",
        ),
        (vec![weight()], "tensor 1, `layer.bias` [8], is missing"),
        (
            vec![weight(), spec("layer.bias", &[8]), spec("x", &[1])],
            "tensor 2, `x` [1]",
        ),
    ] {
        let layout = Layout::new(specs).unwrap();
        let request = join_request(&layout, Role::Trainer, 1);
        let status = Peer::join(&scene.server.url(), request).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
        assert!(status.message().contains(words), "{status:?}");
        assert!(status.message().contains("workload.model"), "{status:?}");
    }
    assert_eq!(
        scene.server.metrics().sum("asgc_server_refused_joins_total", &[]),
        4.0
    );
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_that_is_not_understood_is_refused_in_words() {
    let scene = Scene::start().await;
    let url = scene.server.url();
    let long = "x".repeat(300);
    type Change<'a> = Box<dyn Fn(&mut v1::JoinRequest) + 'a>;
    let cases: Vec<(Change<'_>, Code, &str)> = vec![
        (
            Box::new(|r| r.protocol = 2),
            Code::FailedPrecondition,
            "speaks protocol 2, the server speaks 1",
        ),
        (
            Box::new(|r| r.protocol = 0),
            Code::FailedPrecondition,
            "speaks protocol 0, the server speaks 1",
        ),
        (
            Box::new(|r| r.role = 0),
            Code::Unimplemented,
            "role = 0 is not supported",
        ),
        (
            Box::new(|r| r.role = 99),
            Code::Unimplemented,
            "role = 99 is not supported",
        ),
        (
            Box::new(|r| r.fingerprint = vec![0; 32].into()),
            Code::InvalidArgument,
            "fingerprint",
        ),
        (
            Box::new(|r| r.fingerprint = vec![].into()),
            Code::InvalidArgument,
            "fingerprint",
        ),
        (
            Box::new(|r| r.tensors.clear()),
            Code::InvalidArgument,
            "no tensors",
        ),
        (
            Box::new(|r| r.tensors[0].shape = vec![1 << 40, 1 << 40]),
            Code::InvalidArgument,
            "entries",
        ),
        (
            Box::new(|r| r.name.clone_from(&long)),
            Code::InvalidArgument,
            "name has 300 bytes",
        ),
    ];
    for (change, code, words) in cases {
        let mut request = join_request(&scene.layout, Role::Trainer, 1);
        change(&mut request);
        let status = Peer::join(&url, request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
        assert!(status.message().contains(words), "{status:?}");
    }
    let mut client = raw::connect(&url).await;
    for protocol in [0, 2] {
        let status = client
            .settings(v1::SettingsRequest { protocol })
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(
            status.message().contains(&format!("protocol {protocol}")),
            "{status:?}"
        );
    }
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_is_malformed_ends_its_session_only() {
    let mut scene = Scene::start().await;
    let at = {
        let mut peer = scene.trainer().await;
        let at = scene.current(&mut peer).await;
        peer.leave().await;
        at
    };
    let values = vec![0.5; 40];
    let good = || push(1, at, &values);
    let changed = |change: &dyn Fn(&mut v1::PushHeader)| {
        let mut header = good();
        change(&mut header);
        vec![Kind::Push(header)]
    };
    // The first tensor has 32 entries, the second 8.
    let sparse = |entries: [u32; 2], indices: &[i32]| {
        let mut data = indices.iter().flat_map(|i| i.to_le_bytes()).collect::<Vec<_>>();
        data.extend(indices.iter().flat_map(|_| 1f32.to_le_bytes()));
        changed(&|header| {
            header.format = v1::Format::Topk.into();
            header.entries = entries.to_vec();
            header.payload_bytes = data.len() as u64;
            header.data = data.clone().into();
        })
    };
    let announced = |bytes: usize| {
        let mut header = good();
        header.data = header.data.slice(..bytes);
        Kind::Push(header)
    };
    let parameters = |size_bytes| {
        Kind::InitialParameters(v1::InitialParameters {
            size_bytes,
            ..Default::default()
        })
    };
    let report = v1::Evaluation {
        buffers_bytes: 1 << 40,
        ..Default::default()
    };
    let cases: Vec<(Vec<Kind>, &str)> = vec![
        (changed(&|h| h.format = 0), "format = 0 is not supported"),
        (changed(&|h| h.format = 99), "format = 99 is not supported"),
        (changed(&|h| h.push_id = 0), "push_id 0"),
        (changed(&|h| h.payload_bytes = 161), "161 bytes"),
        (changed(&|h| h.payload_bytes = 1 << 40), "1099511627776 bytes"),
        (changed(&|h| h.entries = vec![1]), "counts entries of 1 tensors"),
        (sparse([1, 0], &[32]), "tensor 0: index 32 is out of range"),
        (sparse([1, 0], &[402_653_634]), "index 402653634 is out of range"),
        (sparse([1, 0], &[-1]), "out of range"),
        (sparse([2, 0], &[5, 4]), "tensor 0: index 4 does not rise"),
        (sparse([2, 0], &[5, 5]), "tensor 0: index 5 does not rise"),
        (
            sparse([0, 9], &[0, 1, 2, 3, 4, 5, 6, 7, 8]),
            "tensor 1: 9 entries are more than its 8",
        ),
        (sparse([u32::MAX, 0], &[0]), "more than its 32"),
        (
            sparse([3, 0], &[0, 1]),
            "16 bytes; its format and entry counts make 24",
        ),
        (
            changed(&|h| h.data = vec![0; 164].into()),
            "a chunk of 164 bytes, and 160 were missing",
        ),
        (
            changed(&|h| h.data = vec![0; 1025].into()),
            "1025 bytes of data in one message",
        ),
        (
            vec![announced(80), chunk(vec![0; 84])],
            "a chunk of 84 bytes, and 80 were missing",
        ),
        (vec![announced(80), chunk(vec![])], "a chunk of 0 bytes"),
        (vec![announced(80), chunk(vec![0; 1025])], "a chunk of 1025 bytes"),
        (vec![chunk(vec![0; 4])], "a chunk of nothing"),
        (
            vec![announced(80), Kind::Abort(v1::Abort {}), chunk(vec![0; 80])],
            "a chunk of nothing",
        ),
        (vec![Kind::Hello(v1::Hello { session: 1 })], "hello comes once"),
        (
            vec![parameters(4)],
            "initial parameters of 4 bytes; the layout has 160",
        ),
        (vec![Kind::Evaluation(report)], "buffers of 1099511627776 bytes"),
        (
            vec![Kind::Evaluation(v1::Evaluation::default())],
            "a trainer does not report evaluations",
        ),
    ];
    let count = cases.len();
    for (messages, words) in cases {
        let mut peer = scene.trainer().await;
        for message in messages {
            peer.say(message).await;
        }
        let status = peer.end().await;
        assert_eq!(status.code(), Code::InvalidArgument, "{words}: {status:?}");
        assert!(status.message().contains(words), "{status:?}, expected: {words}");
        scene.honest.steps(1).await;
    }
    // All but the wrong role are found malformed before they reach the owner.
    let malformed = scene.server.metrics().sum("asgc_server_malformed_total", &[]);
    assert_eq!(malformed, count as f64 - 1.0);
    let events = scene.finish().await;
    assert_eq!(updates_of(&events, 1).len(), 0, "none of them is an update");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_over_the_limit_is_refused() {
    let scene = Scene::start().await;
    let mut peer = scene.trainer().await;
    peer.say(chunk(vec![0; (4 << 20) + 1])).await;
    let status = peer.end().await;
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    assert!(status.message().contains("4194304"), "{status:?}");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_cannot_be_taken_gets_its_verdict_and_may_go_on() {
    let mut scene = Scene::start().await;
    let mut peer = scene.trainer().await;
    let (generation, version) = scene.current(&mut peer).await;
    let values = vec![0.5; 40];
    let mut expected = Vec::new();
    let mut id = 0;
    for (at, bad, reason) in [
        ((generation, version), Some(f32::NAN), v1::RejectReason::NonFinite),
        (
            (generation, version),
            Some(f32::INFINITY),
            v1::RejectReason::NonFinite,
        ),
        ((generation, version + 1), None, v1::RejectReason::FutureVersion),
        ((generation, u64::MAX), None, v1::RejectReason::FutureVersion),
        ((generation + 1, version), None, v1::RejectReason::WrongGeneration),
        ((0, 0), None, v1::RejectReason::WrongGeneration),
    ] {
        id += 1;
        let mut values = values.clone();
        values[17] = bad.unwrap_or(values[17]);
        peer.say(Kind::Push(push(id, at, &values))).await;
        let verdict = peer.verdict().await;
        assert_eq!((verdict.push_id, verdict.reason()), (id, reason));
        assert_eq!(
            (verdict.decision(), verdict.weight),
            (v1::Decision::Rejected, 0.0)
        );
        assert_eq!(verdict.version, version, "a rejection moves nothing");
        expected.push(reason);
    }
    peer.say(Kind::Push(push(id + 1, (generation, version), &values)))
        .await;
    let verdict = peer.verdict().await;
    assert_eq!(
        (verdict.decision(), verdict.version),
        (v1::Decision::Accepted, version + 1)
    );
    scene.honest.steps(3).await;
    peer.leave().await;
    let events = scene.finish().await;
    let logged = updates_of(&events, 1)
        .iter()
        .map(|update| update.reason)
        .collect::<Vec<_>>();
    use RejectReason::{FutureVersion, NonFinite, WrongGeneration};
    let reasons = [
        NonFinite,
        NonFinite,
        FutureVersion,
        FutureVersion,
        WrongGeneration,
        WrongGeneration,
    ];
    let reasons = reasons.into_iter().map(Some).chain([None]);
    assert_eq!(logged, reasons.collect::<Vec<_>>());
}

/// But for the time that the server took, which is another each time.
fn timeless(verdict: v1::Verdict) -> v1::Verdict {
    v1::Verdict {
        held_s: 0.0,
        ..verdict
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_push_is_applied_once_and_gets_the_verdict_it_had() {
    let mut scene = Scene::start().await;
    let mut peer = scene.trainer().await;
    let at = scene.current(&mut peer).await;
    let repeated = || Kind::Push(push(9, at, &[0.25; 40]));
    peer.say(repeated()).await;
    let first = timeless(peer.verdict().await);
    assert_eq!(
        (first.decision(), first.version),
        (v1::Decision::Accepted, at.1 + 1)
    );
    let after = peer.pull().await;
    peer.say(repeated()).await;
    assert_eq!(timeless(peer.verdict().await), first, "on the same stream");
    drop(peer);
    scene.honest.steps(2).await;

    let mut again = scene.trainer().await;
    let ours = again.admitted.worker_id;
    again.say(repeated()).await;
    assert_eq!(timeless(again.verdict().await), first, "on another stream");
    // The header alone is answered as well: the payload need not come again.
    let mut header = push(9, at, &[0.25; 40]);
    header.data.clear();
    header.asks_first = true;
    again.say(Kind::Push(header)).await;
    assert_eq!(timeless(again.verdict().await), first, "asked first");
    // Another process under the same identity has ids of its own.
    let current = scene.current(&mut again).await;
    again.leave().await;
    let mut request = join_request(&scene.layout, Role::Trainer, 78);
    request.worker_id = ours;
    let mut other = Peer::join(&scene.server.url(), request).await.unwrap();
    other.say(Kind::Push(push(9, current, &[0.25; 40]))).await;
    assert_eq!(other.verdict().await.version, current.1 + 1);
    assert_eq!(after.at.1, first.version);
    other.leave().await;
    let events = scene.finish().await;
    let accepted = |update: &&&Update| update.decision == Decision::Accepted;
    assert_eq!(updates_of(&events, 1).iter().filter(accepted).count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hello_comes_first_with_the_right_token_and_once() {
    let mut scene = Scene::start().await;
    let mut client = raw::connect(&scene.server.url()).await;
    let missing = raw::train(&mut client, Kind::Pull(v1::PullRequest::default()))
        .await
        .unwrap_err();
    assert_eq!(missing.code(), Code::InvalidArgument);
    assert!(
        missing.message().contains("the first message must be hello"),
        "{missing:?}"
    );

    let join = join_request(&scene.layout, Role::Trainer, 5);
    let admitted = client.join(join).await.unwrap().into_inner();
    let hello = |session| Kind::Hello(v1::Hello { session });
    let wrong = raw::train(&mut client, hello(admitted.session ^ 1))
        .await
        .unwrap_err();
    assert!(wrong.message().contains("no such session"), "{wrong:?}");

    let (outgoing, mut incoming) = raw::train(&mut client, hello(admitted.session)).await.unwrap();
    let twice = raw::train(&mut client, hello(admitted.session))
        .await
        .unwrap_err();
    assert!(twice.message().contains("one stream for each join"), "{twice:?}");
    // The first stream is none the worse for it.
    outgoing
        .send(raw::message(Kind::Pull(v1::PullRequest::default())))
        .await
        .unwrap();
    let answer = incoming.message().await.unwrap().unwrap().kind.unwrap();
    assert!(matches!(answer, Said::Snapshot(_)), "{answer:?}");
    drop((outgoing, incoming));
    scene.honest.steps(1).await;
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evaluator_does_not_push_and_its_report_must_be_owed() {
    let mut scene = Scene::start().await;
    let url = scene.server.url();
    let mut peer = Peer::evaluator(&url, &scene.layout, 5).await;
    let at = peer.pull().await.at;
    peer.say(Kind::Push(push(1, at, &[1.0; 40]))).await;
    let status = peer.end().await;
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(
        status.message().contains("an evaluator does not push gradients"),
        "{status:?}"
    );

    let mut peer = Peer::evaluator(&url, &scene.layout, 6).await;
    // The next evaluation is due after `eval_interval` versions.
    scene.honest.steps(10).await;
    let (_, version) = peer.pull().await.at;
    for (version, loss) in [(version + 5, 1.0), (version, 2.0), (version, 3.0)] {
        let report = v1::Evaluation {
            version,
            loss,
            accuracy: 0.5,
            ..Default::default()
        };
        peer.say(Kind::Evaluation(report)).await;
    }
    peer.leave().await;
    let events = scene.finish().await;
    let evals = events.iter().filter_map(|event| match event {
        Event::Eval(eval) => Some((eval.version.0, eval.test_loss)),
        _ => None,
    });
    assert_eq!(evals.collect::<Vec<_>>(), [(version, 2.0)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn initial_parameters_must_be_finite_and_another_may_send_them() {
    let task = Quadratic::small();
    let mut server = TestServer::start(&[("workload.max_updates", "3")]);
    let mut peer = Peer::trainer(&server.url(), &task.tensors(), 5).await;
    assert!(peer.admitted.needs_parameters);
    let mut second = Peer::trainer(&server.url(), &task.tensors(), 6).await;
    assert!(!second.admitted.needs_parameters);
    // Not asked, so not heard.
    second.initialise(&[7.0; 40]).await;
    // An answer to what comes after it says that it has been dealt with.
    let early = push(1, (second.admitted.generation, 0), &[0.0; 40]);
    second.say(Kind::Push(early)).await;
    assert_eq!(second.verdict().await.reason(), v1::RejectReason::FutureVersion);
    let mut values = task.initial();
    values[39] = f32::NAN;
    peer.initialise(&values).await;
    let status = peer.end().await;
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("40 finite values"), "{status:?}");
    let asked = second.hear().await.unwrap();
    assert!(matches!(asked, Some(Said::NeedParameters(_))), "{asked:?}");
    second.initialise(&task.initial()).await;
    assert_eq!(second.pull().await.values, task.initial());
    second.leave().await;
    Honest::join(&server.url(), task).await.train_to_the_end().await;
    truth::check(&server.finished());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_the_socket_costs_nobody_else_anything() {
    let mut scene = Scene::start().await;
    let mut rubbish = vec![0u8; 64 << 10];
    rubbish
        .iter_mut()
        .enumerate()
        .for_each(|(i, byte)| *byte = (i * i * 7 + i) as u8);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let settings = b"\0\0\0\x04\0\0\0\0\0";
    let with = |frames: &[u8]| [&preface[..], settings, frames].concat();
    let cases: Vec<Vec<u8>> = vec![
        rubbish.clone(),
        b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03".to_vec(),
        with(&rubbish),
        // A frame of 16 MiB that does not come; one on stream 0 that belongs on another; an unknown type.
        with(b"\xff\xff\xff\0\0\0\0\0\x01"),
        with(b"\0\0\x01\0\0\0\0\0\0x"),
        with(b"\0\0\x02\xfe\0\0\0\0\0xx"),
        with(b"\0\0\x05\x01\x04\0\0\0\x01\xff\xff\xff\xff\xff"),
    ];
    let mut open = Vec::new();
    for bytes in &cases {
        let mut socket = TcpStream::connect(scene.server.address()).unwrap();
        // The server may close before it has read all of it.
        let _ = socket.write_all(bytes);
        open.push(socket);
        scene.honest.steps(1).await;
    }
    // Half a preface, and then nothing: it must not keep anybody from anything.
    let mut half = TcpStream::connect(scene.server.address()).unwrap();
    half.write_all(&preface[..10]).unwrap();
    // What is no HTTP/2 is closed, not kept.
    for socket in &mut open[..3] {
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
    }
    scene.finish().await;
    drop((half, open));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_health_and_reflection_answer() {
    use tonic_health::pb::health_client::HealthClient;
    use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus};
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

    let scene = Scene::start().await;
    let url = scene.server.url();
    let mut client = raw::connect(&url).await;
    let settings = client
        .settings(v1::SettingsRequest { protocol: 1 })
        .await
        .unwrap()
        .into_inner();
    let json: serde_json::Value = serde_json::from_str(&settings.config_json).unwrap();
    assert_eq!(json["workload"]["max_updates"], 200);
    assert_eq!(
        json["telemetry"],
        serde_json::Value::Null,
        "the server's own affair"
    );
    assert_eq!(settings.server_version, env!("CARGO_PKG_VERSION"));

    let channel = tonic::transport::Endpoint::from_shared(url)
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut health = HealthClient::new(channel.clone());
    for service in ["", "asgc.v1.ParameterServer"] {
        let request = HealthCheckRequest {
            service: service.into(),
        };
        let status = health.check(request).await.unwrap().into_inner().status();
        assert_eq!(status, ServingStatus::Serving, "{service:?}");
    }
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = ServerReflectionClient::new(channel)
        .server_reflection_info(tokio_stream::iter([request]))
        .await
        .unwrap()
        .into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response;
    let Some(MessageResponse::ListServicesResponse(list)) = answer else {
        panic!("{answer:?}");
    };
    let names = list
        .service
        .iter()
        .map(|service| service.name.as_str())
        .collect::<Vec<_>>();
    assert!(
        names.contains(&"asgc.v1.ParameterServer") && names.contains(&"grpc.health.v1.Health"),
        "{names:?}"
    );
    scene.finish().await;
}

/// C23: names that would break a log line or a page of metrics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_names_stay_what_they_are() {
    let scene = Scene::start().await;
    let names = [
        "\"",
        "\\",
        "a\nb",
        "\t",
        "\u{1f980}",
        "}{a=\"b\"}",
        "\u{1b}[31m",
        "",
        "../../x",
    ];
    for name in names {
        let mut request = join_request(&scene.layout, Role::Trainer, 5);
        request.name = name.into();
        let mut peer = Peer::join(&scene.server.url(), request).await.unwrap();
        let at = peer.pull().await.at;
        peer.say(Kind::Push(push(1, at, &[0.0; 40]))).await;
        peer.verdict().await;
        assert!(
            scene
                .server
                .metrics()
                .sum("asgc_server_members", &[("role", "trainer")])
                >= 1.0
        );
        peer.leave().await;
    }
    let events = scene.finish().await;
    let joined = events.iter().filter_map(|event| match event {
        Event::Join(join) if join.name != "honest" => Some(join.name.as_str()),
        _ => None,
    });
    assert_eq!(joined.collect::<Vec<_>>(), names);
}

/// C24: series of workers that left go; totals do not fall.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn series_of_departed_workers_go() {
    let scene = Scene::start().await;
    let url = scene.server.url();
    for incarnation in 100..130 {
        let mut request = join_request(&scene.layout, Role::Trainer, incarnation);
        request.worker_id = Some(incarnation as u32);
        let mut peer = Peer::join(&url, request).await.unwrap();
        let at = peer.pull().await.at;
        peer.say(Kind::Push(push(1, at, &[0.0; 40]))).await;
        peer.verdict().await;
        peer.leave().await;
    }
    let page = until("the departed to be gone", || {
        let page = scene.server.metrics();
        let series = page
            .samples
            .iter()
            .filter(|sample| sample.0 == "asgc_server_worker_pushes_total");
        (series.count() == 1).then_some(page)
    });
    assert_eq!(
        page.sum("asgc_server_pushes_total", &[("decision", "accepted")]),
        33.0
    );
    let events = scene.finish().await;
    assert_eq!(updates(&events).len(), 200);
}
