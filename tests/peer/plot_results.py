#!/usr/bin/env python3
"""Reads event logs by the reference's names alone, and prints and writes the reference's summary of them.

A peer of `asgc summary` and `asgc report` that shares no code with them: what both say of a log must agree, and it
must take logs of the reference as well as those of asgc. Whatever it does not know it passes over.

    plot_results.py --runs NAMES... [--results-dir results] [--target ACC]

Needs the standard library only. Figures are drawn where matplotlib can be imported.
"""

import argparse
import csv
import json
import sys
from pathlib import Path

COLUMNS = [
    "run",
    "dataset",
    "final_accuracy",
    "final_loss",
    "applied",
    "rejected_frac",
    "total_gb",
    "compression_ratio",
    "updates_per_sec",
    "mean_staleness",
    "max_staleness",
    "max_acc_drop",
    "wall_s",
    "time_to_target_s",
]
MISSING = "-"


def read_log(path):
    """Events by kind, in order; a last line that a killed run left half written is dropped."""
    kinds = {"run_start": [], "update": [], "eval": [], "control": [], "run_end": []}
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            event = json.loads(line)
        except json.JSONDecodeError as error:
            if number == len(lines):
                break
            sys.exit(f"{path}:{number}: {error}")
        kinds.get(event["event"], []).append(event)
    return kinds


def summarise(name, log, target):
    """The columns' values; absent where the log does not tell."""
    row = {"run": name}
    for start in log["run_start"][:1]:
        row["dataset"] = start["dataset"]
    for end in log["run_end"][-1:]:
        row.update(of_the_end(end))
    evals = log["eval"]
    accuracies = [accuracy for accuracy in (event["test_accuracy"] for event in evals) if accuracy is not None]
    drops = [before - after for before, after in zip(accuracies, accuracies[1:])]
    if drops:
        row["max_acc_drop"] = max(0.0, *drops)
    if target is not None:
        reached = (event["elapsed_s"] for event in evals if (event["test_accuracy"] or 0.0) >= target)
        row["time_to_target_s"] = next(reached, None)
    return row


def of_the_end(end):
    return {
        "final_accuracy": end["final_test_accuracy"],
        "final_loss": end["final_test_loss"],
        "applied": end["applied_updates"],
        "rejected_frac": end["rejected_frac"],
        "total_gb": end["total_bytes"] / 1e9,
        "compression_ratio": end["compression_ratio"],
        "updates_per_sec": end["updates_per_sec"],
        "mean_staleness": end["mean_staleness"],
        "max_staleness": end["max_staleness"],
        "wall_s": end["elapsed_s"],
    }


def cell(column, value):
    if value is None:
        return MISSING
    if column == "total_gb":
        return f"{value:.3f}"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def print_table(rows):
    lines = [COLUMNS] + rows
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())


def cumulative_gigabytes(log):
    """What had been pushed at each evaluation."""
    points, total, updates = [], 0, iter(log["update"])
    update = next(updates, None)
    for event in log["eval"]:
        while update is not None and update["elapsed_s"] <= event["elapsed_s"]:
            total += update["payload_bytes"]
            update = next(updates, None)
        points.append(total / 1e9)
    return points


def draw(logs, folder):
    try:
        import matplotlib
    except ImportError:
        print("no figures: matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    def of_evals(key):
        return lambda log: [event[key] for event in log["eval"]]

    def of_updates(of):
        return lambda log: [of(event) for event in log["update"]]

    figures = {
        "accuracy_vs_time": ("seconds", of_evals("elapsed_s"), "accuracy", of_evals("test_accuracy")),
        "loss_vs_time": ("seconds", of_evals("elapsed_s"), "loss", of_evals("test_loss")),
        "bytes_vs_accuracy": ("GB pushed", cumulative_gigabytes, "accuracy", of_evals("test_accuracy")),
        "staleness_vs_rejection": (
            "staleness",
            of_updates(lambda event: event["staleness"]),
            "rejected",
            of_updates(lambda event: int(event["decision"] == "rejected")),
        ),
    }
    for title, (x_name, x_of, y_name, y_of) in figures.items():
        figure, axes = pyplot.subplots(figsize=(8, 5))
        for name, log in logs:
            plot = axes.scatter if title == "staleness_vs_rejection" else axes.plot
            plot(x_of(log), y_of(log), label=name)
        axes.set_xlabel(x_name)
        axes.set_ylabel(y_name)
        axes.legend()
        figure.savefig(folder / f"{title}.png", dpi=150)
        pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", nargs="+", required=True, metavar="NAME")
    parser.add_argument("--results-dir", type=Path, default=Path("results"))
    parser.add_argument("--target", type=float, metavar="ACC")
    args = parser.parse_args()

    logs = [(name, read_log(args.results_dir / name / "events.jsonl")) for name in args.runs]
    summaries = [summarise(name, log, args.target) for name, log in logs]
    rows = [[cell(column, summary.get(column)) for column in COLUMNS] for summary in summaries]
    print_table(rows)
    folder = args.results_dir / "plot"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "summary.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    draw(logs, folder)


if __name__ == "__main__":
    main()
