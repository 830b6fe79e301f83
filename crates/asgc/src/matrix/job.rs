//! One run of a matrix, and whether it has been made already.

use super::file::{Matrix, problem};
use crate::local::Setup;
use crate::run::Mode;
use crate::summary;
use asgc_core::config::{Config, StepTime};
use asgc_daemon::config::ConfigError;
use asgc_lab::Summary;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A configuration with a seed.
#[derive(Debug)]
pub(crate) struct Job {
    /// The configuration's own name: what runs over several seeds have in common.
    pub(crate) group: String,
    /// The run's: `NAME_sSEED`.
    pub(crate) name: String,
    /// Its experiment file.
    pub(crate) file: PathBuf,
    pub(crate) setup: Setup,
}

/// What an earlier run left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing that could be used.
    Nothing,
    /// The very run.
    Done,
    /// A run of that name, but with other settings.
    Other,
}

/// All runs, seed by seed: a whole comparison is there as early as possible. Everything is checked before anything runs.
///
/// # Errors
/// A file that cannot be loaded, and two runs that would write to one folder.
pub(crate) fn jobs(matrix: &Matrix, set: &[String]) -> Result<Vec<Job>, ConfigError> {
    let mut jobs = Vec::new();
    let mut folders = BTreeMap::<PathBuf, PathBuf>::new();
    for seed in &matrix.seeds {
        for file in &matrix.configs {
            let job = job(file, *seed, matrix.set.iter().chain(set).cloned().collect())?;
            if let Some(other) = folders.insert(job.setup.folder(), file.clone()) {
                let (folder, other) = (job.setup.folder(), other.display().to_string());
                let words = format!(
                    "{other} would write to {} as well; give them names of their own (run.name)",
                    folder.display()
                );
                return Err(problem(file, words));
            }
            jobs.push(job);
        }
    }
    Ok(jobs)
}

fn job(file: &std::path::Path, seed: u64, mut set: Vec<String>) -> Result<Job, ConfigError> {
    let group = Setup::load(Some(file.to_owned()), set.clone(), true)?
        .config()
        .run
        .name
        .clone();
    let name = format!("{group}_s{seed}");
    set.extend([format!("run.name={name}"), format!("run.seed={seed}")]);
    let setup = Setup::load(Some(file.to_owned()), set, true)?;
    let file = file.to_owned();
    Ok(Job {
        group,
        name,
        file,
        setup,
    })
}

/// Whether all can be carried out in that way: that is known before the first of them is started.
///
/// # Errors
/// Objectives, which only a simulation computes.
pub(crate) fn check(jobs: &[Job], mode: Mode) -> Result<(), ConfigError> {
    let objective = |job: &&Job| mode == Mode::Processes && job.setup.config().workload.model.is_synthetic();
    let Some(job) = jobs.iter().find(objective) else {
        return Ok(());
    };
    let model = job.setup.config().workload.model.as_str();
    let words = format!(
        "workload.model: {model:?} is an objective, which workers do not compute; use --mode simulate"
    );
    Err(problem(&job.file, words))
}

impl Job {
    /// The run's figures, where it has a log.
    pub(crate) fn summary(&self) -> Option<Summary> {
        summary::find(&self.setup.folder())
    }

    /// Whether the run was made before, to its end and with the same settings.
    pub(crate) fn found(&self, mode: Mode) -> Found {
        self.compare(self.summary().as_ref(), mode)
    }

    /// What the run with these figures is to this job.
    pub(crate) fn compare(&self, summary: Option<&Summary>, mode: Mode) -> Found {
        let complete = summary.filter(|summary| summary.is_complete());
        let Some(start) = complete.and_then(|summary| summary.start.as_ref()) else {
            return Found::Nothing;
        };
        let logged = start.config.as_deref();
        let same = start.simulated == (mode == Mode::Simulate)
            && logged.is_some_and(|logged| {
                comparable(logged, logged, mode) == comparable(self.setup.config(), logged, mode)
            });
        if same { Found::Done } else { Found::Other }
    }
}

/// Without what describes a machine, or a run as a process. `logged` knows the time of a step that was measured.
/// Daemons do not read `[simulation]`: what is calibrated there makes no other real run.
fn comparable(config: &Config, logged: &Config, mode: Mode) -> Config {
    let mut config = config.clone();
    let neutral = Config::default();
    (config.telemetry, config.worker) = (neutral.telemetry, neutral.worker);
    config.server.listen = neutral.server.listen;
    config.server.advertise = None;
    config.server.address_file = None;
    config.run.results_dir = neutral.run.results_dir;
    if mode == Mode::Processes {
        config.simulation = neutral.simulation;
    }
    config.simulation.threads = 0;
    if config.simulation.step == StepTime::Measured && config.simulation.step_s == 0.0 {
        config.simulation.step_s = logged.simulation.step_s;
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn matrix(dir: &Path, names: &[&str]) -> Matrix {
        let file = |(i, name): (usize, &&str)| {
            let path = dir.join(format!("{i}.toml"));
            let results = dir.display();
            fs::write(
                &path,
                format!("[run]\nname = \"{name}\"\nresults_dir = \"{results}\"\n"),
            )
            .unwrap();
            path
        };
        Matrix {
            configs: names.iter().enumerate().map(file).collect(),
            seeds: vec![3, 1],
            set: vec!["workload.lr=0.5".into()],
        }
    }

    #[test]
    fn seeds_are_the_outer_loop() {
        let dir = tempfile::tempdir().unwrap();
        let jobs = jobs(
            &matrix(dir.path(), &["a", "b"]),
            &["workload.batch_size=7".into()],
        )
        .unwrap();
        let names = jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>();
        assert_eq!(names, ["a_s3", "b_s3", "a_s1", "b_s1"]);
        let config = jobs[3].setup.config();
        assert_eq!(
            (config.run.seed, config.workload.lr, config.workload.batch_size),
            (1, 0.5, 7)
        );
        assert_eq!((jobs[3].group.as_str(), config.run.name.as_str()), ("b", "b_s1"));
    }

    #[test]
    fn runs_must_not_overwrite_one_another() {
        let dir = tempfile::tempdir().unwrap();
        let error = jobs(&matrix(dir.path(), &["a", "a"]), &[])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("1.toml: ") && error.contains("0.toml would") && error.contains("a_s3"),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_is_wrong_stops_all() {
        let dir = tempfile::tempdir().unwrap();
        let error = jobs(&matrix(dir.path(), &["a"]), &["workload.lr=-1".into()]).unwrap_err();
        assert!(error.to_string().contains("workload.lr"), "{error}");
        let mut missing = matrix(dir.path(), &["a"]);
        missing.configs.push("nowhere.toml".into());
        assert!(
            jobs(&missing, &[])
                .unwrap_err()
                .to_string()
                .contains("nowhere.toml")
        );
    }

    #[test]
    fn objectives_are_simulated_only() {
        let dir = tempfile::tempdir().unwrap();
        let set = ["workload.model=quadratic", "workload.dataset=synthetic"].map(str::to_owned);
        let made = jobs(&matrix(dir.path(), &["a"]), &set).unwrap();
        assert_eq!(check(&made, Mode::Simulate), Ok(()));
        let error = check(&made, Mode::Processes).unwrap_err().to_string();
        assert!(error.contains("0.toml: workload.model: \"quadratic\""), "{error}");
        let real = jobs(&matrix(dir.path(), &["a"]), &[]).unwrap();
        assert_eq!(check(&real, Mode::Processes), Ok(()));
    }

    /// Each matrix that comes with asgc names files that are there, sound, and in nobody else's way.
    #[test]
    fn the_matrices_of_the_repository_can_be_run() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut found = 0;
        for folder in ["configs", "configs/findings"] {
            for entry in fs::read_dir(repository.join(folder)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() || !fs::read_to_string(&path).unwrap().contains("\nconfigs = [") {
                    continue;
                }
                // Paths in them are those of the repository, where they are run from.
                let mut matrix = Matrix::read(&path).unwrap_or_else(|error| panic!("{error}"));
                for config in &mut matrix.configs {
                    *config = repository.join(&*config);
                }
                let jobs = jobs(&matrix, &[]).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(jobs.len(), matrix.configs.len() * matrix.seeds.len());
                found += 1;
            }
        }
        assert_eq!(found, 7);
    }

    #[test]
    fn what_describes_the_machine_makes_no_other_run() {
        let mut config = Config::default();
        let logged = {
            let mut logged = config.clone();
            logged.simulation.step_s = 0.04;
            logged.server.listen = "127.0.0.1:1".into();
            logged
        };
        let same =
            |config: &Config, mode| comparable(config, &logged, mode) == comparable(&logged, &logged, mode);
        config.telemetry.log = "debug".into();
        config.simulation.threads = 2;
        assert!(same(&config, Mode::Simulate));
        config.simulation.step_s = 0.05;
        assert!(!same(&config, Mode::Simulate));
        assert!(
            same(&config, Mode::Processes),
            "steps of daemons are what they are"
        );
        config.simulation.step_s = 0.04;
        config.workload.lr = 0.1;
        assert!(!same(&config, Mode::Simulate));
        assert!(!same(&config, Mode::Processes));
    }
}
