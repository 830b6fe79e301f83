use super::*;
use crate::model::initial_parameters;

fn spec() -> TrainerSpec {
    TrainerSpec {
        dataset: Dataset::Procedural,
        data_root: PathBuf::new(),
        model: Model::SmallCnn,
        batch_size: 32,
        seed: 5,
        worker: WorkerId(1),
        num_workers: 8,
        device: "cpu".into(),
        threads: 1,
    }
}

fn trainer(spec: &TrainerSpec) -> (Trainer, Vec<f32>) {
    let mut trainer = Trainer::new(spec).unwrap();
    let parameters = initial_parameters(spec.model, spec.seed).unwrap();
    trainer.set_parameters(&parameters).unwrap();
    (trainer, parameters)
}

#[test]
fn a_trainer_can_move_to_a_thread() {
    fn is_send<T: Send>() {}
    is_send::<Trainer>();
    is_send::<Batch>();
}

#[test]
fn the_gradient_agrees_with_finite_differences() {
    let (mut trainer, parameters) = trainer(&spec());
    let batch = trainer.next_batch().unwrap();
    let mut gradient = vec![f32::NAN; parameters.len()];
    trainer.gradient(&batch, &mut gradient).unwrap();
    let mut unused = gradient.clone();
    // The largest entry of each tensor: small ones drown in the rounding of f32.
    for range in trainer.layout().clone().ranges() {
        let at = range
            .max_by(|&a, &b| gradient[a].abs().total_cmp(&gradient[b].abs()))
            .unwrap();
        let step = 1e-2_f32;
        let mut loss_at = |value: f32| {
            let mut moved = parameters.clone();
            moved[at] = value;
            trainer.set_parameters(&moved).unwrap();
            trainer.gradient(&batch, &mut unused).unwrap().loss
        };
        let slope = (loss_at(parameters[at] + step) - loss_at(parameters[at] - step)) / (2.0 * step);
        let difference = (slope - gradient[at]).abs();
        assert!(
            difference < 0.05 * gradient[at].abs() + 1e-4,
            "entry {at}: {slope} and {}",
            gradient[at]
        );
    }
}

#[test]
fn the_same_batch_gives_the_same_bytes() {
    let gradient_of = || {
        let (mut trainer, parameters) = trainer(&spec());
        let mut gradient = vec![0.0; parameters.len()];
        trainer.step(&mut gradient).unwrap();
        let step = trainer.step(&mut gradient).unwrap();
        (gradient, step, trainer.cursor())
    };
    let (gradient, step, cursor) = gradient_of();
    assert_eq!(gradient_of(), (gradient, step, cursor));
    assert_eq!(
        cursor,
        Cursor {
            pass: 0,
            position: 64
        }
    );
}

#[test]
fn descent_lowers_the_loss() {
    let (mut trainer, mut parameters) = trainer(&spec());
    let mut gradient = vec![0.0; parameters.len()];
    let mut losses = Vec::new();
    for _ in 0..60 {
        losses.push(trainer.step(&mut gradient).unwrap().loss);
        parameters
            .iter_mut()
            .zip(&gradient)
            .for_each(|(p, g)| *p -= 0.1 * g);
        trainer.set_parameters(&parameters).unwrap();
    }
    let mean = |losses: &[f32]| losses.iter().sum::<f32>() / losses.len() as f32;
    assert!(
        (2.1..2.5).contains(&losses[0]),
        "ln 10 at first, not {}",
        losses[0]
    );
    assert!(mean(&losses[50..]) < 0.8 * mean(&losses[..10]), "{losses:?}");
}

#[test]
fn passes_end_in_a_short_batch_and_a_cursor_leads_back() {
    let spec = TrainerSpec {
        batch_size: 700,
        ..spec()
    };
    let (mut trainer, parameters) = trainer(&spec);
    assert_eq!(trainer.shard_len(), 1500);
    let sizes: Vec<u32> = (0..4).map(|_| trainer.next_batch().unwrap().samples()).collect();
    assert_eq!(sizes, [700, 700, 100, 700]);
    let cursor = trainer.cursor();
    assert_eq!(
        cursor,
        Cursor {
            pass: 1,
            position: 700
        }
    );
    let (mut one, mut other) = (vec![0.0; parameters.len()], vec![0.0; parameters.len()]);
    trainer.step(&mut one).unwrap();
    trainer.seek(cursor);
    trainer.step(&mut other).unwrap();
    assert_eq!(one, other);
}

#[test]
fn what_does_not_fit_is_refused_with_words() {
    let (mut trainer, parameters) = trainer(&spec());
    let message = trainer.set_parameters(&parameters[1..]).unwrap_err().to_string();
    assert_eq!(
        message,
        "the slice of parameters has 55337 entries, the model 55338"
    );
    let message = trainer.step(&mut []).unwrap_err().to_string();
    assert_eq!(message, "the slice of gradient has 0 entries, the model 55338");

    let says = |spec: TrainerSpec| Trainer::new(&spec).unwrap_err().to_string();
    assert!(
        says(TrainerSpec {
            model: Model::Resnet18,
            ..spec()
        })
        .contains("Resnet8 and Resnet18 read Cifar10")
    );
    assert!(
        says(TrainerSpec {
            batch_size: 0,
            ..spec()
        })
        .contains("workload.batch_size must be 1 to")
    );
    let nowhere = TrainerSpec {
        worker: WorkerId(12_001),
        num_workers: 20_000,
        ..spec()
    };
    assert!(says(nowhere).contains("no training sample is left for worker 12001"));
}
