//! What `asgc local` starts, worked out from the configuration.

use crate::cluster::{ENDPOINTS_FILE, Grace, Plan, Spec, WorkersOf};
use crate::programs;
use anyhow::Result;
use asgc_core::config::Config;
use asgc_daemon::config::{ConfigArgs, ConfigError, Loaded, Place, load_from};
use std::path::PathBuf;
use std::time::Duration;

/// Keys of `[worker]` that `asgc` decides itself.
const OWN_WORKER_KEYS: [&str; 3] = ["server", "role", "id"];

/// The two daemons' programs.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) server: PathBuf,
    pub(crate) worker: PathBuf,
}

impl Programs {
    pub(crate) fn find() -> Result<Self> {
        Ok(Self {
            server: programs::find("asgc-server")?,
            worker: programs::find("asgc-worker")?,
        })
    }
}

/// A configuration as it was asked for and as it came out.
#[derive(Debug)]
pub(crate) struct Setup {
    file: Option<PathBuf>,
    set: Vec<String>,
    loaded: Loaded,
    evaluator: bool,
}

impl Setup {
    /// Reads and checks the configuration before anything is started.
    pub(crate) fn load(
        file: Option<PathBuf>,
        set: Vec<String>,
        evaluator: bool,
    ) -> Result<Self, ConfigError> {
        let args = ConfigArgs {
            config: file.iter().cloned().collect(),
            set: set.clone(),
            ..ConfigArgs::default()
        };
        let loaded = load_from(&args, &[], std::env::vars_os())?;
        Ok(Self {
            file,
            set,
            loaded,
            evaluator,
        })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.loaded.config
    }

    /// Where the run leaves its log and model.
    pub(crate) fn folder(&self) -> PathBuf {
        let run = &self.config().run;
        PathBuf::from(&run.results_dir).join(&run.name)
    }

    /// `--config` and `--set` as they were given.
    pub(crate) fn flags(&self) -> Vec<String> {
        let file = self
            .file
            .iter()
            .flat_map(|file| ["--config".to_owned(), file.display().to_string()]);
        file.chain(self.set.iter().flat_map(|set| ["--set".to_owned(), set.clone()]))
            .collect()
    }

    pub(crate) fn plan(&self, programs: &Programs) -> Plan {
        let folder = self.folder();
        let drain = Duration::try_from_secs_f64(self.config().server.drain_s).unwrap_or_default();
        let margin = Duration::from_secs(5);
        Plan {
            server: self.server(programs),
            workers: Some(self.workers(programs)),
            grace: Grace {
                start: Duration::from_secs(60),
                drain: drain.saturating_add(margin),
                follow: margin * 2,
                term: margin,
            },
            folder,
        }
    }

    /// The same run on virtual time, as one process.
    pub(crate) fn simulation(&self, simulator: PathBuf) -> Plan {
        let folder = self.folder();
        // Its drain takes virtual seconds; of real ones it needs those of a last evaluation.
        let patience = Duration::from_secs(60);
        Plan {
            server: Spec {
                name: "simulator".into(),
                program: simulator,
                args: self.flags(),
                log: folder.join("simulator.log"),
                trainer: false,
            },
            workers: None,
            grace: Grace {
                start: patience,
                drain: patience,
                follow: patience,
                term: Duration::from_secs(5),
            },
            folder,
        }
    }

    fn server(&self, programs: &Programs) -> Spec {
        let folder = self.folder();
        let mut args = self.flags();
        let mut set = |key: &str, value: String| args.extend(["--set".to_owned(), format!("{key}={value}")]);
        for key in ["server.listen", "telemetry.metrics_listen"] {
            if self.loaded.origin(key) == Place::Default {
                set(key, "127.0.0.1:0".into());
            }
        }
        set(
            "server.address_file",
            folder.join(ENDPOINTS_FILE).display().to_string(),
        );
        let (program, log) = (programs.server.clone(), folder.join("server.log"));
        Spec {
            name: "server".into(),
            program,
            args,
            log,
            trainer: false,
        }
    }

    fn workers(&self, programs: &Programs) -> WorkersOf {
        let (program, folder, settings) = (programs.worker.clone(), self.folder(), self.worker_settings());
        let (trainers, evaluator) = (self.config().workload.num_workers, self.evaluator);
        Box::new(move |endpoints| {
            let spec = |name: String, own: [String; 2], trainer| {
                let args = ["--server".to_owned(), format!("http://{}", endpoints.grpc)];
                let args = args
                    .into_iter()
                    .chain(own)
                    .chain(settings.iter().cloned())
                    .collect();
                let log = folder.join(format!("{name}.log"));
                Spec {
                    name,
                    program: program.clone(),
                    args,
                    log,
                    trainer,
                }
            };
            let mut specs: Vec<_> = (0..trainers)
                .map(|id| spec(format!("worker-{id}"), ["--id".into(), id.to_string()], true))
                .collect();
            if evaluator {
                specs.push(spec(
                    "evaluator".into(),
                    ["--role".into(), "evaluator".into()],
                    false,
                ));
            }
            specs
        })
    }

    /// A worker takes the run's settings from the server, and these, which describe the machine, from here.
    fn worker_settings(&self) -> Vec<String> {
        let config = self.config();
        let mut settings = vec![
            format!("run.data_root={}", config.run.data_root),
            format!("run.device={}", config.run.device),
        ];
        let sections = [
            ("worker", serde_json::to_value(&config.worker).unwrap_or_default()),
            (
                "telemetry",
                serde_json::to_value(&config.telemetry).unwrap_or_default(),
            ),
        ];
        for (section, keys) in sections {
            for (key, value) in keys.as_object().into_iter().flatten() {
                let path = format!("{section}.{key}");
                // Two processes cannot listen on one address.
                let own = OWN_WORKER_KEYS.contains(&key.as_str()) || key == "metrics_listen";
                if !own && self.loaded.origin(&path) != Place::Default {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    settings.push(format!("{path}={text}"));
                }
            }
        }
        settings
            .into_iter()
            .flat_map(|setting| ["--set".to_owned(), setting])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use asgc_daemon::endpoints::Endpoints;
    use std::fs;

    fn plan(file: &str, set: &[&str], evaluator: bool) -> (Vec<String>, Vec<Vec<String>>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.toml");
        fs::write(&path, file).unwrap();
        let setup = Setup::load(
            Some(path),
            set.iter().map(ToString::to_string).collect(),
            evaluator,
        )
        .unwrap();
        let plan = setup.plan(&Programs {
            server: "s".into(),
            worker: "w".into(),
        });
        let endpoints = Endpoints {
            grpc: "127.0.0.1:5".into(),
            metrics: None,
            pid: 1,
        };
        let clean = |args: &[String]| -> Vec<String> {
            args.iter()
                .map(|arg| arg.replace(&dir.path().display().to_string(), "DIR"))
                .collect()
        };
        let workers = plan.workers.unwrap()(&endpoints)
            .iter()
            .map(|spec| clean(&spec.args))
            .collect();
        (clean(&plan.server.args), workers)
    }

    #[test]
    fn the_server_takes_free_ports_unless_the_file_says_otherwise() {
        let (server, _) = plan("[run]\nname = \"a\"\n", &["workload.num_workers=2"], true);
        let expect = "--config DIR/x.toml --set workload.num_workers=2 --set server.listen=127.0.0.1:0 \
                      --set telemetry.metrics_listen=127.0.0.1:0 --set server.address_file=results/a/endpoints.json";
        assert_eq!(server.join(" "), expect);
        let own = "[server]\nlisten = \"127.0.0.1:9\"\n[telemetry]\nmetrics_listen = \"127.0.0.1:8\"\n";
        let (server, _) = plan(own, &[], true);
        assert_eq!(
            server.join(" "),
            "--config DIR/x.toml --set server.address_file=results/asgc/endpoints.json"
        );
    }

    #[test]
    fn workers_get_what_describes_the_machine() {
        let file = "[run]\ndata_root = \"/d a\"\n[worker]\nthreads = 2\n[telemetry]\nlog = \"debug\"\nmetrics_listen = \"127.0.0.1:8\"\n";
        let (_, workers) = plan(file, &["workload.num_workers=1"], true);
        let machine = [
            "--set",
            "run.data_root=/d a",
            "--set",
            "run.device=auto",
            "--set",
            "worker.threads=2",
            "--set",
            "telemetry.log=debug",
        ];
        let expect = |own: [&str; 2]| {
            ["--server", "http://127.0.0.1:5"]
                .into_iter()
                .chain(own)
                .chain(machine)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(workers, [expect(["--id", "0"]), expect(["--role", "evaluator"])]);
        assert_eq!(plan(file, &["workload.num_workers=4"], false).1.len(), 4);
    }

    #[test]
    fn a_bad_configuration_starts_nothing() {
        let error = Setup::load(None, vec!["run.name=../x".into()], true)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("--set: run.name: must be 1 to 100 letters"),
            "{error}"
        );
    }

    #[test]
    fn the_files_that_come_with_asgc_are_sound() {
        let configs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../configs");
        let mut names = std::collections::BTreeSet::new();
        let (experiments, matrices) = files(&configs);
        for path in experiments {
            let setup =
                Setup::load(Some(path.clone()), vec![], true).unwrap_or_else(|error| panic!("{error}"));
            let name = setup.config().run.name.clone();
            assert_eq!(path.file_stem().unwrap().to_str().unwrap(), name);
            assert!(
                names.insert(name),
                "{} shares its folder of results",
                path.display()
            );
        }
        assert_eq!((names.len(), matrices.len()), (61, 8));
    }

    /// All files below `folder`: experiments, and matrices, which name a list of them.
    fn files(folder: &std::path::Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let (mut experiments, mut matrices) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                let (more, others) = files(&entry);
                experiments.extend(more);
                matrices.extend(others);
            } else if fs::read_to_string(&entry).unwrap().contains("\nconfigs = [") {
                matrices.push(entry);
            } else {
                experiments.push(entry);
            }
        }
        (experiments, matrices)
    }
}
