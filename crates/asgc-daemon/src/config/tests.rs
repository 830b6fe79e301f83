use super::*;
use std::fs;

/// Loads one file of the given name and text, with a folder's path cut from messages.
fn load_file(name: &str, text: &[u8]) -> Result<Loaded, String> {
    load_with(Some((name, text)), &[], &[])
}

fn load_with(file: Option<(&str, &[u8])>, env: &[(&str, &str)], set: &[&str]) -> Result<Loaded, String> {
    let dir = tempfile::tempdir().unwrap();
    let mut args = ConfigArgs {
        set: set.iter().map(ToString::to_string).collect(),
        ..ConfigArgs::default()
    };
    if let Some((name, text)) = file {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        args.config.push(path);
    }
    let env = env
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    load_from(&args, &[], env).map_err(|error| {
        error
            .to_string()
            .replace(&format!("{}/", dir.path().display()), "")
    })
}

fn check(name: &str, text: &str, expect: &str) {
    match load_file(name, text.as_bytes()) {
        Ok(_) => panic!("{text:?} was taken; expected {expect:?}"),
        Err(error) => assert_eq!(error, expect, "for {text:?}"),
    }
}

#[test]
fn a_typo_is_named_with_its_line_and_the_nearest_key() {
    let near = "x.toml:3: workload.batchsize: unknown key; did you mean workload.batch_size?";
    check("x.toml", "[workload]\nlr = 0.1\nbatchsize = 4\n", near);
    check(
        "x.yaml",
        "workload:\n  lr: 0.1\n  batchsize: 4\n",
        &near.replace("toml", "yaml"),
    );
    check(
        "x.toml",
        "\n[worklaod]\nlr = 0.1\n",
        "x.toml:2: worklaod: unknown section; did you mean [workload]?",
    );
    check(
        "x.toml",
        "[error_feedback]\nzzz = 1\n",
        "x.toml:2: error_feedback.zzz: unknown key; [error_feedback] has bound, cap, clip_norm, decay, enabled, follow_rate, masking, momentum",
    );
    check(
        "x.yaml",
        "run:\n  name: a\nfederation:\n  mode: delta\n",
        "x.yaml:3: federation: unknown section; there are compression, controller, downlink, error_feedback, heterogeneity, \
         objective, optimizer, run, server, simulation, staleness, telemetry, worker, workload",
    );
}

#[test]
fn a_key_in_the_wrong_section_is_sent_home() {
    check(
        "x.toml",
        "[run]\nlr = 0.1\n",
        "x.toml:2: run.lr: unknown key; lr belongs in [workload]",
    );
    check(
        "x.toml",
        "lr = 0.1\n",
        "x.toml:1: lr: is a key, not a section; it belongs in [workload]",
    );
    check(
        "x.toml",
        "[run]\nenabled = true\n",
        "x.toml:2: run.enabled: unknown key; enabled belongs in [controller] or [error_feedback] or [staleness]",
    );
    check(
        "x.toml",
        "[run]\nmax_update = 3\n",
        "x.toml:2: run.max_update: unknown key; did you mean workload.max_updates?",
    );
}

#[test]
fn a_repeated_key_is_an_error() {
    check(
        "x.toml",
        "[workload]\nlr = 0.1\nlr = 0.2\n",
        "x.toml:3: duplicate key: lr",
    );
    check(
        "x.toml",
        "[run]\nseed = 1\n[run]\nname = 'a'\n",
        "x.toml:3: duplicate key: run",
    );
    check(
        "x.yaml",
        "workload:\n  lr: 0.1\n  lr: 0.2\n",
        "x.yaml:3: workload.lr: is set twice, first on line 2",
    );
    check(
        "x.yaml",
        "run:\n  seed: 1\nrun:\n  seed: 2\n",
        "x.yaml:3: run: is set twice, first on line 1",
    );
    check(
        "x.yaml",
        "heterogeneity:\n  compute_delay: {1: 0.3, \"1\": 0.4}\n",
        "x.yaml:2: heterogeneity.compute_delay.1: is set twice, first on line 2",
    );
}

#[test]
fn files_that_say_nothing_are_errors() {
    for text in ["", "# nothing\n", "\u{feff}", "\r\n"] {
        check("x.toml", text, "x.toml: the file holds no settings");
        check("x.yaml", text, "x.yaml: the file holds no settings");
    }
    check(
        "x.json",
        "{}",
        "x.json: the name must end in .toml, .yaml or .yml",
    );
    check(
        "x.yaml",
        "workload:\n",
        "x.yaml:1: workload: is a section and needs keys below it",
    );
    let args = ConfigArgs {
        config: vec!["/no/such.toml".into()],
        ..ConfigArgs::default()
    };
    let error = load_from(&args, &[], std::iter::empty()).unwrap_err().to_string();
    assert_eq!(
        error,
        "/no/such.toml: cannot be read: No such file or directory (os error 2)"
    );
    let error = load_file("x.toml", b"[run]\nname = '\xff'\n").unwrap_err();
    assert_eq!(error, "x.toml: is not UTF-8 from byte 14 on");
}

#[test]
fn byte_order_mark_and_windows_line_ends_are_taken() {
    for (name, text) in [
        (
            "x.toml",
            "\u{feff}[workload]\r\nlr = 0.25\r\nmodel = \"small_cnn\"\r\n",
        ),
        (
            "x.yaml",
            "\u{feff}workload:\r\n  lr: 0.25\r\n  model: small_cnn\r\n",
        ),
    ] {
        assert_eq!(
            load_file(name, text.as_bytes()).unwrap().config.workload.lr,
            0.25,
            "{name}"
        );
    }
    check(
        "x.toml",
        "\u{feff}[workload]\r\n\r\nlrr = 1\r\n",
        "x.toml:3: workload.lrr: unknown key; did you mean workload.lr?",
    );
}

#[test]
fn values_that_do_not_fit_are_errors_not_rounded() {
    let toml = |line: &str, expect: &str| check("x.toml", &format!("[workload]\n{line}\n"), expect);
    toml(
        "batch_size = 1.7",
        "x.toml:2: workload.batch_size: invalid type: floating point `1.7`, expected a whole number, 0 or more",
    );
    toml(
        "batch_size = -1",
        "x.toml:2: workload.batch_size: invalid value: integer `-1`, expected a whole number, 0 or more",
    );
    toml(
        "sync = \"on\"",
        "x.toml:2: workload.sync: invalid type: string \"on\", expected true or false",
    );
    toml(
        "lr = \"0.1\"",
        "x.toml:2: workload.lr: invalid type: string \"0.1\", expected a number",
    );
    toml("lr = nan", "x.toml:2: workload.lr: must be a finite number");
    toml(
        "target_accuracy = inf",
        "x.toml:2: workload.target_accuracy: must be a finite number",
    );
    toml(
        "model = \"smallcnn\"",
        "x.toml:2: workload.model: \"smallcnn\" is none of small_cnn, toy_cnn, resnet8, resnet18, quadratic, logistic; did you mean small_cnn?",
    );
    check(
        "x.toml",
        "[compression]\nbits = 258\n",
        "x.toml:2: compression.bits: invalid value: integer `258`, expected a whole number, 0 or more",
    );
    check(
        "x.toml",
        "[workload]\nlr =\n",
        "x.toml:2: string values must be quoted, expected literal string",
    );
}

#[test]
fn all_problems_are_reported_at_once() {
    check(
        "x.toml",
        "[workload]\nlr = -1.0\nmax_updates = 0\n[compression]\nrho = 2.0\n[telemetry]\nlog = \"infoo\"\n",
        "x.toml:2: workload.lr: must be a number above 0\n\
         x.toml:3: workload.max_updates: must be at least 1\n\
         x.toml:5: compression.rho: must be above 0 and at most 1\n\
         x.toml:7: telemetry.log: \"infoo\" is no level; levels are off, error, warn, info, debug, trace",
    );
    check(
        "x.toml",
        "[workload]\ndataset = \"cifar10\"\n",
        "default: workload.model: does not fit workload.dataset: small_cnn and toy_cnn read fashion_mnist and procedural, \
         resnet8 and resnet18 read cifar10, quadratic and logistic are synthetic",
    );
}

#[test]
fn maps_with_integer_keys_are_read_from_every_source() {
    let delays = |loaded: Result<Loaded, String>| loaded.unwrap().config.heterogeneity.compute_delay;
    let expect: BTreeMap<u32, f64> = [(1, 0.3), (2, 1.0)].into();
    let toml = b"[heterogeneity.compute_delay]\n1 = 0.3\n2 = 1\n";
    assert_eq!(delays(load_file("x.toml", toml)), expect);
    let yaml = b"heterogeneity:\n  compute_delay:\n    1: 0.3\n    2: 1\n";
    assert_eq!(delays(load_file("x.yaml", yaml)), expect);
    let set = [
        "heterogeneity.compute_delay.1=0.3",
        "heterogeneity.compute_delay.2=1",
    ];
    assert_eq!(delays(load_with(None, &[], &set)), expect);
    assert_eq!(
        delays(load_with(
            None,
            &[],
            &["heterogeneity.compute_delay={1 = 0.3, 2 = 1}"]
        )),
        expect
    );
    let env = [("ASGC__HETEROGENEITY__COMPUTE_DELAY__2", "1")];
    assert_eq!(
        delays(load_with(
            Some(("x.yaml", b"heterogeneity: {compute_delay: {1: 0.3}}")),
            &env,
            &[]
        )),
        expect
    );
    check(
        "x.toml",
        "[heterogeneity.compute_delay]\none = 0.3\n",
        "x.toml:2: heterogeneity.compute_delay.one: the key must be a whole number, 0 or more",
    );
    check(
        "x.toml",
        "[heterogeneity.compute_delay]\n1 = -0.3\n",
        "x.toml:2: heterogeneity.compute_delay: must be a number of seconds, 0 or more",
    );
}

#[test]
fn lists_and_weights_are_read_from_every_source() {
    use asgc_core::config::ScoreWeights;
    let toml = "[controller]\nrho_bounds = [0.1, 0.5]\nbits_bounds = [3, 8]\nscore_weights = [1, 2, 3, 4]\n";
    let config = load_file("x.toml", toml.as_bytes()).unwrap().config;
    assert_eq!(config.controller.rho_bounds, [0.1, 0.5]);
    assert_eq!(config.controller.bits_bounds, [3, 8]);
    let listed = ScoreWeights {
        a: 1.0,
        b: 2.0,
        c: 3.0,
        d: 4.0,
    };
    assert_eq!(config.controller.score_weights, listed);
    let yaml = "controller:\n  policy: score\n  score_weights: {a: 2, d: 0.5}\n  s_max_bounds: [3, 12]\n";
    let config = load_file("x.yaml", yaml.as_bytes()).unwrap().config;
    let mapped = ScoreWeights {
        a: 2.0,
        b: 1.0,
        c: 1.0,
        d: 0.5,
    };
    assert_eq!(
        (config.controller.score_weights, config.controller.s_max_bounds),
        (mapped, [3, 12])
    );
    let env = [("ASGC__CONTROLLER__S_MAX_BOUNDS", "[3, 9]")];
    let set = ["controller.rho_bounds=[0.2,0.3]", "controller.score_weights.b=7"];
    let config = load_with(Some(("x.yaml", yaml.as_bytes())), &env, &set)
        .unwrap()
        .config;
    assert_eq!(
        (config.controller.s_max_bounds, config.controller.rho_bounds),
        ([3, 9], [0.2, 0.3])
    );
    assert_eq!(config.controller.score_weights, ScoreWeights { b: 7.0, ..mapped });
    // What looks like a list and is text stays text.
    let config = load_with(None, &[], &["server.listen=[::1]:7070"])
        .unwrap()
        .config;
    assert_eq!(config.server.listen, "[::1]:7070");
}

#[test]
fn lists_that_do_not_fit_are_errors() {
    let misfit = |keys: &str, expect: &str| {
        let found = load_file("x.toml", format!("[controller]\n{keys}\n").as_bytes()).unwrap_err();
        assert_eq!(found, format!("x.toml:2: controller.{expect}"));
    };
    misfit(
        "rho_bounds = [0.1]",
        "rho_bounds: invalid length 1, expected an array of length 2",
    );
    misfit(
        "rho_bounds = 0.1",
        "rho_bounds: invalid type: floating point `0.1`, expected an array of length 2",
    );
    misfit(
        "score_weights = [1, 2]",
        "score_weights: invalid length 2, expected an array of length 4",
    );
    misfit(
        "score_weights = {e = 1}",
        "score_weights.e: unknown field `e`, expected one of `a`, `b`, `c`, `d`",
    );
    misfit(
        "policy = \"treshold\"",
        "policy: \"treshold\" is none of threshold, score, budget; did you mean threshold?",
    );
}

#[test]
fn later_layers_win_and_origins_are_told() {
    let file = Some((
        "x.toml",
        b"[run]\nname = \"a\"\nseed = 1\n[workload]\nlr = 0.5\n".as_slice(),
    ));
    let env = [
        ("ASGC__RUN__SEED", "2"),
        ("ASGC__RUN__NAME", "123"),
        ("ASGC_OTHER", "x"),
        ("PATH", "x"),
    ];
    let loaded = load_with(
        file,
        &env,
        &[
            "run.seed=3",
            "workload.target_accuracy=0.5",
            "run.seed=18446744073709551615",
        ],
    );
    let loaded = loaded.unwrap();
    assert_eq!(
        (loaded.config.run.name.as_str(), loaded.config.run.seed),
        ("123", u64::MAX)
    );
    assert_eq!(loaded.config.workload.lr, 0.5);
    assert_eq!(loaded.config.workload.target_accuracy, Some(0.5));
    assert_eq!(loaded.origin("run.seed"), Place::Set);
    assert_eq!(loaded.origin("run.name"), Place::Env("ASGC__RUN__NAME".into()));
    assert_eq!(loaded.origin("workload.sync"), Place::Default);
}

#[test]
fn variables_and_flags_are_checked_as_files_are() {
    let env = |name: &str, value: &str| load_with(None, &[(name, value)], &[]).unwrap_err();
    assert_eq!(
        env("ASGC__WORKLOAD__LRR", "1"),
        "environment variable ASGC__WORKLOAD__LRR: workload.lrr: unknown key; did you mean workload.lr?"
    );
    assert_eq!(
        env("ASGC__WORKLOAD__LR", "fast"),
        "environment variable ASGC__WORKLOAD__LR: workload.lr: invalid type: string \"fast\", expected a number"
    );
    assert_eq!(
        env("ASGC__WORKLOAD", "1"),
        "environment variable ASGC__WORKLOAD: workload: needs the form section.key"
    );
    let set = |flag: &str| load_with(None, &[], &[flag]).unwrap_err();
    assert_eq!(
        set("workload.lr"),
        "--set: workload.lr: needs the form section.key=value"
    );
    assert_eq!(
        set("workload.lr.x=1"),
        "--set: workload.lr.x: needs the form section.key"
    );
    assert_eq!(
        set("workload.lr=nan"),
        "--set: workload.lr: must be a finite number"
    );
    assert_eq!(
        set("workload.batch_size=1.5"),
        "--set: workload.batch_size: invalid type: floating point `1.5`, expected a whole number, 0 or more"
    );
    assert_eq!(
        set("workload.lr=-1"),
        "--set: workload.lr: must be a number above 0"
    );
    assert_eq!(set("run.name=../x").split(": ").nth(1), Some("run.name"));
    let args = ConfigArgs {
        log: Some("loud".into()),
        ..ConfigArgs::default()
    };
    let error = load_from(&args, &[("workload.num_workers", "0".into())], std::iter::empty()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "command line: workload.num_workers: must be at least 1\n\
         command line: telemetry.log: \"loud\" is no level; levels are off, error, warn, info, debug, trace"
    );
}

#[test]
fn an_experiment_file_of_the_reference_runs_as_it_is() {
    let yaml = b"run:\n  name: async_topk_ef\n  seed: 0\nworkload:\n  dataset: fashion_mnist\n  model: small_cnn\n  \
        batch_size: 128\n  num_workers: 3\n  lr: 0.05\n  lr_decay_frac: 0.5\n  max_updates: 3000\n  \
        max_wall_time_s: 1200\n  eval_interval: 250\n  target_accuracy: 0.85\n  sync: false\nheterogeneity:\n  \
        compute_delay: {1: 0.3}\n  comm_delay_ms: 0\ncompression:\n  mode: topk\n  rho: 0.25\nstaleness:\n  \
        enabled: false\nerror_feedback:\n  enabled: true\n";
    let config = load_file("x.yaml", yaml).unwrap().config;
    assert_eq!(config.heterogeneity.compute_delay, [(1, 0.3)].into());
    assert_eq!(config.compression.mode, asgc_core::config::CompressionMode::Topk);
    assert!(config.error_feedback.enabled);
}

#[test]
fn the_printed_configuration_reads_back_the_same() {
    let file = Some((
        "x.toml",
        b"[run]\nname = \"a\"\n[heterogeneity.compute_delay]\n1 = 0.3\n[server]\naddress_file = \"a\\nseed = 1\\n[x]\"\n".as_slice(),
    ));
    let loaded = load_with(file, &[], &["workload.target_accuracy=0.9"]).unwrap();
    let text = loaded.to_toml().unwrap();
    assert!(text.contains("target_accuracy = 0.9  # --set\n"), "{text}");
    assert!(
        text.lines()
            .any(|line| line.starts_with("1 = 0.3  # ") && line.ends_with("x.toml:4")),
        "{text}"
    );
    let again = load_file("y.toml", text.as_bytes()).unwrap();
    assert_eq!(again.config, loaded.config);
}

#[test]
fn settings_from_a_newer_server_are_read_and_local_ones_kept() {
    let mut config = Config::default();
    config.run.seed = 7;
    config.run.data_root = "/server/data".into();
    config.heterogeneity.compute_delay = [(1, 0.3)].into();
    let json = to_settings_json(&config)
        .replacen('{', r#"{"novel":{"a":1},"#, 1)
        .replace(r#""seed":7"#, r#""seed":7,"new_key":[1]"#);
    let remote = from_settings_json(&json).unwrap();
    assert_eq!((remote.run.seed, remote.run.data_root.as_str()), (7, "data"));
    assert_eq!(remote.heterogeneity.compute_delay, [(1, 0.3)].into());
    let mut local = Config::default();
    local.run.data_root = "/mine".into();
    local.worker.threads = 4;
    local.workload.lr = 9.0;
    let merged = overlay(remote, &local);
    assert_eq!(
        (
            merged.run.data_root.as_str(),
            merged.worker.threads,
            merged.workload.lr
        ),
        ("/mine", 4, 0.05)
    );
}

#[test]
fn bad_settings_from_a_server_are_refused() {
    let error = |json: &str| from_settings_json(json).unwrap_err().to_string();
    assert_eq!(
        error(r#"{"workload":{"lr":"x"}}"#),
        "settings from the server: workload.lr: invalid type: string \"x\", expected a number"
    );
    assert_eq!(
        error(r#"{"workload":{"lr":0}}"#),
        "settings from the server: workload.lr: must be a number above 0"
    );
    assert!(
        error("[]").starts_with("settings from the server: "),
        "{}",
        error("[]")
    );
}
