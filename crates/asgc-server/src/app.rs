//! Putting the parts together.

use crate::admin::Admin;
use crate::crew::Threads;
use crate::incoming::{Traffic, incoming};
use crate::metrics::Metrics;
use crate::owner::{Command, Owner};
use crate::service::{Service, Shared};
use crate::sink::Sink;
use crate::train::Direct;
use crate::{generation, model_file};
use asgc_core::config::{CompressionMode, Config, DownlinkMode, OnLogError};
use asgc_core::server::{Input, Server};
use asgc_daemon::Daemon;
use asgc_daemon::config::to_settings_json;
use asgc_daemon::endpoints::Endpoints;
use asgc_daemon::event_log::EventLog;
use asgc_daemon::exit::{BoxError, FAILURE};
use asgc_daemon::host_name;
use asgc_daemon::shutdown::Shutdown;
use asgc_proto::limits;
use asgc_proto::v1::admin_server::AdminServer;
use asgc_proto::v1::parameter_server_server::ParameterServerServer;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::transport::server::Router;

/// Between two looks at the clock; bounds how late a wall-time stop is.
const TICK: Duration = Duration::from_millis(50);

/// The name of the model's file in a run's folder.
pub const MODEL_FILE: &str = "model.safetensors";

/// Runs a server until its run is over, or a drain has been asked for and done.
pub async fn run(daemon: Daemon) -> Result<ExitCode, BoxError> {
    let config = daemon.config.clone();
    let dir = Path::new(&config.run.results_dir).join(&config.run.name);
    let listener = bind(&config.server.listen).await?;
    let address = listener.local_addr()?;
    let log = EventLog::open(&dir, config.telemetry.events_max_bytes)?;
    let metrics = Arc::new(Metrics::new(&daemon.registry, &config)?);
    let server = new_server(&config, &dir)?;
    let traffic = Arc::new(Traffic::default());
    let (queue, inbox) = mpsc::channel(config.server.queue_depth);
    let owner = Owner {
        server,
        inbox,
        sink: Sink::new(log, Arc::clone(&metrics)),
        metrics: Arc::clone(&metrics),
        traffic: Arc::clone(&traffic),
        epoch: Instant::now(),
        stop_without_log: config.telemetry.events_on_error == OnLogError::Stop,
        asking: Default::default(),
        tickets: 0,
    };
    let owner = tokio::task::spawn_blocking(move || owner.run());
    tokio::spawn(tick(queue.clone(), Arc::clone(&traffic)));
    tokio::spawn(drain_on_request(queue.clone(), daemon.shutdown.clone()));

    let drained = Shutdown::new();
    let sockets = incoming(listener, traffic, config.server.max_sessions * 2);
    let router = router(&config, queue, metrics, daemon.shutdown.clone()).await?;
    let serving = tokio::spawn({
        let drained = drained.clone();
        async move {
            router
                .serve_with_incoming_shutdown(sockets, async move { drained.requested().await })
                .await
        }
    });
    announce(&config, address, daemon.metrics_addr)?;
    daemon.health.set_ready();

    let (server, sink) = owner.await?;
    let saved = save(&server, &dir);
    let report = tokio::task::spawn_blocking(|| sink.close()).await?;
    // Workers have left or had their time: what still hangs on is cut off with the process.
    drained.request();
    let _ = tokio::time::timeout(Duration::from_secs(1), serving).await;
    saved?;
    if report.lost > 0 {
        tracing::error!(
            lost = report.lost,
            "events could not be written; the log is not whole"
        );
        return Ok(ExitCode::from(FAILURE));
    }
    Ok(ExitCode::SUCCESS)
}

async fn bind(listen: &str) -> Result<TcpListener, BoxError> {
    TcpListener::bind(listen)
        .await
        .map_err(|error| format!("server.listen = {listen}: {error}").into())
}

fn new_server(config: &Config, dir: &Path) -> Result<Server, BoxError> {
    let generation = generation::begin(dir)?;
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let initial = match &config.server.initial_parameters {
        Some(path) => Some(model_file::read(Path::new(path))?),
        None => None,
    };
    if let Some(why) = no_delta(config) {
        tracing::warn!("downlink.mode = \"delta\" will send snapshots: {why}");
    }
    let initial = initial.map(|(layout, values)| (Arc::new(layout), values));
    let server = Server::new(config.clone(), generation, unix.as_secs_f64(), initial);
    Ok(server.with_crew(Arc::new(Threads::new(config.server.threads))))
}

/// Why there will be no deltas though they are wanted.
fn no_delta(config: &Config) -> Option<&'static str> {
    let optimizer = &config.optimizer;
    let dense = optimizer.momentum > 0.0 || optimizer.weight_decay > 0.0;
    if config.downlink.mode != DownlinkMode::Delta {
        return None;
    }
    match config.compression.mode {
        _ if dense => Some(
            "optimizer.momentum and optimizer.weight_decay move every entry; set them to 0, use error_feedback.momentum at \
             the workers, or downlink.mode = \"lossy\"",
        ),
        CompressionMode::Identity => Some(
            "pushes that carry every entry are as long as all parameters; set compression.mode, or downlink.mode = \"lossy\"",
        ),
        CompressionMode::Topk | CompressionMode::Quantize | CompressionMode::Sign => None,
    }
}

async fn tick(queue: mpsc::Sender<Command>, traffic: Arc<Traffic>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let frames = traffic.read();
        if queue.send(Command::Handle(Input::Tick { frames })).await.is_err() {
            return;
        }
    }
}

async fn drain_on_request(queue: mpsc::Sender<Command>, shutdown: Shutdown) {
    shutdown.requested().await;
    let reason = "asked to drain".to_owned();
    // A queue that is closed belongs to a run that has ended already.
    let _ = queue.send(Command::Handle(Input::Drain { reason })).await;
}

async fn router(
    config: &Config,
    queue: mpsc::Sender<Command>,
    metrics: Arc<Metrics>,
    shutdown: Shutdown,
) -> Result<Router, BoxError> {
    let admin = AdminServer::new(Admin { queue: queue.clone() });
    let shared = Arc::new(Shared {
        settings_json: to_settings_json(config),
        chunk_bytes: config.server.chunk_bytes,
        max_sessions: config.server.max_sessions,
        patience: Duration::from_secs_f64(config.server.liveness_s),
        queue,
        metrics,
        pending: Default::default(),
        sessions: AtomicU64::new(1),
        open: AtomicU64::new(0),
    });
    let service = Service { shared };
    let calls = ParameterServerServer::new(service.clone())
        .max_decoding_message_size(limits::MAX_MESSAGE_BYTES)
        .max_encoding_message_size(limits::MAX_MESSAGE_BYTES);
    let service = Direct::new(service, calls);
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<ParameterServerServer<Service>>().await;
    tokio::spawn(async move {
        shutdown.requested().await;
        health.set_not_serving::<ParameterServerServer<Service>>().await;
    });
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(asgc_proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()?;
    let beat = Duration::from_secs_f64(config.server.liveness_s / 2.0);
    Ok(tonic::transport::Server::builder()
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(beat))
        .http2_keepalive_timeout(Some(beat))
        .initial_stream_window_size(limits::STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
        .max_frame_size(limits::FRAME_BYTES)
        .http2_max_header_list_size(limits::MAX_HEADER_BYTES)
        .add_service(health_service)
        .add_service(reflection)
        .add_service(admin)
        .add_service(service))
}

/// Says where the server is: in words for people, in a file for programs.
fn announce(config: &Config, grpc: SocketAddr, metrics: Option<SocketAddr>) -> Result<(), BoxError> {
    let host = match &config.server.advertise {
        Some(host) => format!("{host}:{}", grpc.port()),
        // Listening everywhere: no address of this machine is the one, but its name may be known.
        None if grpc.ip().is_unspecified() => format!("{}:{}", host_name(), grpc.port()),
        None => grpc.to_string(),
    };
    tracing::info!("listening on {grpc}; start a worker on any machine with");
    tracing::info!("    asgc-worker --server http://{host}");
    if let Some(path) = &config.server.address_file {
        let endpoints = Endpoints {
            grpc: grpc.to_string(),
            metrics: metrics.map(|address| address.to_string()),
            pid: std::process::id(),
        };
        let written = endpoints.write(Path::new(path));
        written.map_err(|error| format!("server.address_file = {path}: {error}"))?;
    }
    Ok(())
}

/// Writes the model, with the batch-norm statistics of the last evaluation if that was of the final version.
fn save(server: &Server, dir: &Path) -> Result<(), BoxError> {
    let (Some(layout), Some(parameters)) = (server.layout(), server.parameters()) else {
        tracing::warn!("nothing was trained: there is no model to write");
        return Ok(());
    };
    let path = dir.join(MODEL_FILE);
    let evaluation = server.last_evaluation();
    let buffers = evaluation.map_or(&[][..], |evaluation| &evaluation.buffers);
    if let Some(behind) = evaluation.filter(|evaluation| evaluation.version != server.version()) {
        tracing::warn!(
            evaluated = behind.version.0,
            version = server.version().0,
            "the final version was not evaluated: batch-norm statistics are of an earlier one"
        );
    }
    model_file::write(&path, layout, &parameters.to_vec(), buffers)?;
    tracing::info!(version = server.version().0, "the model is in {}", path.display());
    Ok(())
}
