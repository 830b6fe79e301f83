//! Carries out the runs of a matrix, some at once, and passes signals on to them.

use super::progress::{Board, Left};
use crate::cluster::{self, Outcome, Plan};
use crate::summary;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{JoinSet, LocalSet};

/// How a matrix ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ended {
    /// Runs that were made to their end, by number.
    pub(super) made: BTreeSet<usize>,
    /// Runs that failed, by number, and why.
    pub(super) failed: BTreeMap<usize, String>,
    /// Runs that a signal kept from being made to their end.
    pub(super) left: usize,
    /// The exit code of a second signal.
    pub(super) cut_short: Option<u8>,
}

/// A run that is over.
struct Done {
    number: usize,
    folder: PathBuf,
    outcome: Result<Outcome>,
    took: Duration,
}

pub(super) struct Runner<'a> {
    at_once: usize,
    plan: &'a dyn Fn(usize) -> Plan,
    /// Of a run by its number: its name, and its configuration's.
    name: &'a dyn Fn(usize) -> (String, String),
    ended: Ended,
    /// Of the runs under way: where signals to them go, and when they began.
    under_way: BTreeMap<usize, (Sender<u8>, Instant)>,
    interrupted: bool,
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        at_once: usize,
        plan: &'a dyn Fn(usize) -> Plan,
        name: &'a dyn Fn(usize) -> (String, String),
    ) -> Self {
        Self {
            at_once,
            plan,
            name,
            ended: Ended::default(),
            under_way: BTreeMap::new(),
            interrupted: false,
        }
    }

    /// Makes all of `todo`, or as many as signals let it.
    pub(super) async fn run(
        mut self,
        todo: Vec<usize>,
        board: &mut Board,
        mut signals: Receiver<u8>,
    ) -> Result<Ended> {
        let mut todo = VecDeque::from(todo);
        let (local, mut running) = (LocalSet::new(), JoinSet::<Done>::new());
        local
            .run_until(async {
                loop {
                    while !self.interrupted
                        && running.len() < self.at_once
                        && let Some(number) = todo.pop_front()
                    {
                        self.start(number, &mut running, board);
                    }
                    if running.is_empty() {
                        break;
                    }
                    tokio::select! {
                        Some(done) = running.join_next() => self.on_done(done?, &todo, board),
                        Some(code) = signals.recv() => self.on_signal(code, board),
                    }
                }
                self.ended.left += todo.len();
                Ok(self.ended)
            })
            .await
    }

    fn start(&mut self, number: usize, running: &mut JoinSet<Done>, board: &Board) {
        let plan = (self.plan)(number);
        let mut screen = board.begins(&(self.name)(number).0);
        let (send, mut receive) = channel(4);
        let began = Instant::now();
        self.under_way.insert(number, (send, began));
        running.spawn_local(async move {
            let outcome = cluster::run(&plan, &mut screen, &mut receive).await;
            if let crate::output::Screen::Bar(bar) = &screen {
                bar.finish_and_clear();
            }
            Done {
                number,
                folder: plan.folder,
                outcome,
                took: began.elapsed(),
            }
        });
    }

    fn on_done(&mut self, done: Done, todo: &VecDeque<usize>, board: &mut Board) {
        let Done {
            number,
            folder,
            outcome,
            took,
        } = done;
        self.under_way.remove(&number);
        let (name, group) = (self.name)(number);
        let summary = summary::find(&folder);
        let whole = summary.as_ref().is_some_and(|summary| summary.end.is_some());
        match outcome {
            Ok(outcome) if outcome.interrupted => self.ended.left += 1,
            Ok(outcome) if outcome.server_ok && whole => {
                self.ended.made.insert(number);
                board.ended((&name, &group), took, summary.as_ref(), &self.left(todo));
            }
            Ok(_) => {
                let words = format!("{name}: failed; see the logs in {}", folder.display());
                self.fail(number, words, board);
            }
            Err(error) => self.fail(number, format!("{name}: failed: {error:#}"), board),
        }
    }

    /// Runs under way, and those of `todo`.
    fn left(&self, todo: &VecDeque<usize>) -> Vec<Left> {
        let begun = self
            .under_way
            .iter()
            .map(|(&number, (_, began))| (number, began.elapsed().as_secs_f64()));
        let to_come = todo.iter().map(|&number| (number, 0.0));
        let named = |(number, spent)| ((self.name)(number).1, spent);
        begun.chain(to_come).map(named).collect()
    }

    fn fail(&mut self, number: usize, words: String, board: &mut Board) {
        board.failed(&words);
        self.ended.failed.insert(number, words);
    }

    fn on_signal(&mut self, code: u8, board: &Board) {
        if self.interrupted {
            self.ended.cut_short = Some(code);
        } else {
            board.remark("draining the runs under way, and starting no more; once more ends them at once");
        }
        self.interrupted = true;
        for (run, _) in self.under_way.values() {
            // A run that has just ended needs no signal.
            let _ = run.try_send(code);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Grace, Spec};
    use std::fs;

    /// What a run leaves behind that ended.
    const END: &str = r#"{"event":"run_end","applied_updates":1,"rejected_updates":0,"rejected_frac":0,"total_bytes":4,"received_bytes":4,"raw_bytes":4,"compression_ratio":1,"updates_per_sec":1,"elapsed_s":1,"mean_staleness":0,"max_staleness":0,"final_test_accuracy":0.5,"final_test_loss":1,"uplink_frame_bytes":0,"downlink_frame_bytes":0,"reason":"max_updates"}
"#;

    struct Bed {
        dir: tempfile::TempDir,
    }

    impl Bed {
        fn plan(&self, number: usize, script: &str) -> Plan {
            let folder = self.dir.path().join(number.to_string());
            let long = Duration::from_secs(60);
            Plan {
                server: Spec {
                    name: "simulator".into(),
                    program: "/bin/sh".into(),
                    args: [
                        "-c",
                        script,
                        "sh",
                        &folder.display().to_string(),
                        &self.dir.path().display().to_string(),
                    ]
                    .map(str::to_owned)
                    .to_vec(),
                    log: folder.join("simulator.log"),
                    trainer: false,
                },
                workers: None,
                grace: Grace {
                    start: long,
                    drain: long,
                    follow: long,
                    term: long,
                },
                folder,
            }
        }

        /// Runs one script a run, so many at once; sends signals once the file `there` is written.
        fn run(&self, at_once: usize, scripts: &[&str], signals: &[u8]) -> Ended {
            let plan = |number: usize| self.plan(number, scripts[number]);
            let name = |number: usize| (format!("run_s{number}"), "run".to_owned());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let (send, receive) = channel(4);
                let (there, signals) = (self.dir.path().join("there"), signals.to_vec());
                let sender = tokio::spawn(async move {
                    for signal in signals {
                        wait_for(&there).await;
                        send.send(signal).await.unwrap();
                    }
                    // Kept open: a matrix outlives no signals.
                    std::future::pending::<()>().await;
                });
                let mut board = Board::new(scripts.len(), at_once);
                let runner = Runner::new(at_once, &plan, &name);
                let ended = runner
                    .run((0..scripts.len()).collect(), &mut board, receive)
                    .await
                    .unwrap();
                sender.abort();
                ended
            })
        }
    }

    /// Takes the file away again.
    async fn wait_for(path: &PathBuf) {
        while fs::remove_file(path).is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn bed() -> Bed {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("end"), END).unwrap();
        Bed { dir }
    }

    const GOOD: &str = "cp $2/end $1/events.jsonl";

    #[test]
    fn failures_are_told_and_the_others_go_on() {
        let bed = bed();
        let ended = bed.run(2, &[GOOD, "echo broken; exit 3", GOOD, "exit 0"], &[]);
        assert_eq!(ended.made, [0, 2].into(), "{ended:?}");
        assert_eq!(
            ended.failed.keys().collect::<Vec<_>>(),
            [&1, &3],
            "no log, no run"
        );
        assert!(ended.failed[&1].starts_with("run_s1: failed"), "{ended:?}");
        assert!(bed.dir.path().join("2/events.jsonl").exists());
        assert_eq!((ended.left, ended.cut_short), (0, None));
    }

    #[test]
    fn so_many_at_once_and_no_more() {
        let bed = bed();
        // Each waits until another one is there, so that one at a time would never end; a third would be seen.
        let script = format!(
            "mkdir $2/in.$$; until [ $(ls -d $2/in.* | wc -l) -ge 2 ] || [ -e $2/met ]; do sleep 0.01; done; touch $2/met; \
             [ $(ls -d $2/in.* | wc -l) -le 2 ] || exit 9; {GOOD}; rmdir $2/in.$$"
        );
        let ended = bed.run(2, &[script.as_str(); 4], &[]);
        let all = Ended {
            made: (0..4).collect(),
            ..Ended::default()
        };
        assert_eq!(ended, all);
    }

    #[test]
    fn a_signal_drains_what_is_under_way_and_starts_no_more() {
        let bed = bed();
        let script = format!("trap '{GOOD}; exit 0' TERM; touch $2/there; while :; do sleep 0.01; done");
        let ended = bed.run(1, &[script.as_str(), "touch $2/second"], &[130]);
        assert_eq!(
            (ended.left, ended.cut_short, ended.failed.len(), ended.made.len()),
            (2, None, 0, 0),
            "{ended:?}"
        );
        assert!(!bed.dir.path().join("second").exists());
    }

    #[test]
    fn a_second_signal_ends_everything() {
        let bed = bed();
        let script = "trap 'touch $2/there' TERM; touch $2/there; while :; do sleep 0.01; done";
        let ended = bed.run(1, &[script, "touch $2/second"], &[130, 143]);
        assert_eq!((ended.left, ended.cut_short), (2, Some(143)), "{ended:?}");
    }
}
