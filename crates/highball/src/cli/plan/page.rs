//! The answer of `plan` for people: a table of candidates, and in words what limits. It decides nothing.

use std::fmt::Write;
use std::time::Duration;

use ::plan::{Answer, Candidate, Limit, MIN_REQUESTS, Question, Recording};
use supervisor::Size;

use crate::application::counted;

/// The headings of the columns, and how wide they are.
const COLUMNS: [(&str, usize); 9] = [
    ("workers", 9),
    ("threads", 9),
    ("CPU", 7),
    ("busy", 7),
    ("queue p95", 11),
    ("p50", 10),
    ("p95", 10),
    ("p99", 10),
    ("memory", 12),
];

/// The page, with a newline at its end.
pub(super) fn render(
    application: &str,
    question: &Question,
    recording: &Recording,
    answer: &Answer,
) -> String {
    let mut page = heading(application, question, answer) + "\n";
    page += &basis(recording, answer);
    page += "\n\n ";
    for (name, width) in COLUMNS {
        // Writing to a string cannot fail.
        let _ = write!(page, "{name:>width$}");
    }
    page += "\n";
    for (place, candidate) in answer.candidates.iter().enumerate() {
        page += &row(candidate, answer.chosen == Some(place));
    }
    page += "\n";
    for line in conclusions(question, recording, answer) {
        page += &(line + "\n");
    }
    page
}

fn heading(application: &str, question: &Question, answer: &Answer) -> String {
    let name = match application {
        "" => String::new(),
        name => format!("{name}: "),
    };
    let target = question.p99_s.map_or_else(String::new, |target| {
        format!(", 99 % within {}", milliseconds(target))
    });
    let cores = counted(answer.cores.into(), "core");
    format!(
        "{name}{} requests a second{target}; {cores}",
        number(question.rate)
    )
}

fn basis(recording: &Recording, answer: &Answer) -> String {
    let routes = counted(recording.routes.len(), "route");
    let requests = answer.requests;
    let minutes = Duration::from_secs_f64(recording.seconds.clamp(0.0, 1e9)).as_secs() / 60;
    let time = match minutes {
        0 => format!("{:.0} seconds", recording.seconds),
        1..120 => counted(minutes as usize, "minute"),
        _ => counted(minutes as usize / 60, "hour"),
    };
    format!("from {requests} requests to {routes}, recorded in {time}")
}

fn row(candidate: &Candidate, is_chosen: bool) -> String {
    let time = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), milliseconds);
    let part = |part: f64| format!("{:.0} %", part * 100.0);
    let memory = candidate.memory_bytes.map(|bytes| Size(bytes).to_string());
    let cells = [
        candidate.workers.to_string(),
        candidate.threads.to_string(),
        part(candidate.cpu_use),
        part(candidate.thread_use),
        time(candidate.queue_p95_s),
        time(candidate.p50_s),
        time(candidate.p95_s),
        time(candidate.p99_s),
        memory.unwrap_or_else(|| "-".to_owned()),
    ];
    let mut row = String::from(if is_chosen { "*" } else { " " });
    for (cell, (_, width)) in cells.iter().zip(COLUMNS) {
        let _ = write!(row, "{cell:>width$}");
    }
    row + if candidate.is_present {
        "  now\n"
    } else {
        "\n"
    }
}

/// What follows from the table, a sentence or two a line.
fn conclusions(question: &Question, recording: &Recording, answer: &Answer) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(chosen) = answer.chosen.and_then(|place| answer.candidates.get(place)) {
        lines.push(format!(
            "* meets the target with the least memory: workers = {}, threads = {}.",
            chosen.workers, chosen.threads
        ));
    }
    lines.extend(answer.limit.map(|limit| why(limit, question, answer)));
    if answer.limit.is_none() {
        lines.push(computing(answer));
    }
    if answer.candidates.iter().any(|one| one.p99_s.is_none()) {
        lines.push("Where no time is shown, requests come faster than they are served.".to_owned());
    }
    if answer.requests < MIN_REQUESTS {
        lines.push(format!(
            "Warning: only {} requests were recorded. With fewer than {MIN_REQUESTS} the p99 is a guess; ask again later.",
            answer.requests
        ));
    }
    let longer = question.rate > 3.0 * recording.rate() && recording.rate() > 0.0;
    if longer {
        lines.push(format!(
            "The recording has {} requests a second. What grows with the load, such as a database that gets slower, is not in it.",
            number(recording.rate())
        ));
    }
    lines
}

fn computing(answer: &Answer) -> String {
    format!(
        "The load computes {:.1} of {}.",
        answer.needed_cores,
        counted(answer.cores.into(), "core")
    )
}

fn why(limit: Limit, question: &Question, answer: &Answer) -> String {
    match limit {
        Limit::Requests => format!(
            "No number of workers meets the target: 99 % of the requests take up to {} even where none waits for another. \
             `highball slow` and `highball top` show the slowest.",
            milliseconds(answer.alone_p99_s)
        ),
        Limit::Given => format!(
            "{} do not meet the target. Without --workers others are tried.",
            match (question.workers, question.threads) {
                (Some(workers), Some(threads)) => setup(workers, threads),
                _ => "So many workers".to_owned(),
            }
        ),
        Limit::Cores { enough } => {
            let (needed, cores) = (answer.needed_cores, answer.cores);
            let there = counted(cores.into(), "core");
            let reason = if needed >= f64::from(cores) {
                format!("CPU: needs {needed:.1} cores, and there are {cores}")
            } else {
                format!(
                    "CPU: the load computes {needed:.1} of {there}, and requests wait too long for the rest"
                )
            };
            let enough = enough.map_or_else(
                || "More cores do not help with these threads".to_owned(),
                |enough| format!("{} would suffice", counted(enough.into(), "core")),
            );
            format!("No number of workers meets the target. {reason}. {enough}.")
        }
    }
}

fn setup(workers: u16, threads: u16) -> String {
    let workers = counted(workers.into(), "worker");
    format!("{workers} with {}", counted(threads.into(), "thread"))
}

fn milliseconds(seconds: f64) -> String {
    let milliseconds = seconds * 1e3;
    if milliseconds < 100.0 {
        format!("{milliseconds:.1} ms")
    } else {
        format!("{milliseconds:.0} ms")
    }
}

fn number(rate: f64) -> String {
    if rate < 10.0 {
        format!("{rate:.1}")
    } else {
        format!("{rate:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(workers: u16, p99_s: Option<f64>) -> Candidate {
        Candidate {
            workers,
            threads: 3,
            is_present: workers == 2,
            meets: workers == 3,
            cpu_use: 0.621,
            thread_use: 0.4,
            queue_p95_s: p99_s.map(|_| 0.0123),
            p50_s: p99_s.map(|_| 0.04),
            p95_s: p99_s.map(|_| 0.09),
            p99_s,
            memory_bytes: Some(300 << 20),
        }
    }

    fn answer(limit: Option<Limit>) -> Answer {
        Answer {
            rate: 300.0,
            cores: 2,
            needed_cores: 3.2,
            candidates: vec![candidate(2, None), candidate(3, Some(0.18))],
            chosen: limit.is_none().then_some(1),
            limit,
            requests: 312,
            alone_p99_s: 0.24,
        }
    }

    fn page(limit: Option<Limit>) -> String {
        let question = Question {
            rate: 300.0,
            p99_s: Some(0.2),
            workers: None,
            threads: None,
            cores: 2,
        };
        let recording = Recording {
            seconds: 7_300.0,
            ..Recording::default()
        };
        render("shop", &question, &recording, &answer(limit))
    }

    #[test]
    fn the_chosen_candidate_and_the_present_one_are_marked() {
        let page = page(None);
        for line in [
            "shop: 300 requests a second, 99 % within 200 ms; 2 cores\n",
            "from 312 requests to 0 routes, recorded in 2 hours\n",
            "         2        3   62 %   40 %          -         -         -         -   300.0 MiB  now\n",
            "\n*        3        3   62 %   40 %    12.3 ms   40.0 ms   90.0 ms    180 ms   300.0 MiB\n",
            "\n* meets the target with the least memory: workers = 3, threads = 3.\n",
            "Where no time is shown,",
            "Warning: only 312 requests were recorded.",
        ] {
            assert!(page.contains(line), "{line:?} is missing:\n{page}");
        }
    }

    #[test]
    fn what_limits_is_said_in_words() {
        for (limit, expected) in [
            (
                Limit::Cores { enough: Some(4) },
                "CPU: needs 3.2 cores, and there are 2. 4 cores would suffice.\n",
            ),
            (
                Limit::Cores { enough: None },
                "More cores do not help with these threads.\n",
            ),
            (
                Limit::Requests,
                "99 % of the requests take up to 240 ms even",
            ),
            (Limit::Given, "Without --workers others are tried.\n"),
        ] {
            let page = page(Some(limit));
            assert!(page.contains(expected), "{page}");
        }
    }
}
