//! A study's figures beside those of today: which rate, latency and memory of the results stands against which
//! published one, the ratios to the study's own reference, and what is to be known of both. Made from the study and the
//! results alone; nothing is measured.

use super::{Application, Better, Claim, Load, Measure, Participant, Study};
use compare::results::{MemoryUse, Results};
use compare::statistics::Estimate;
use compare::statistics::starts::Sample;
use compare::verdict::{self, Judgement, Verdict, judge};
use report::then_and_now::{Finding, Row, ThenAndNow};

/// `free -m`, which the studies used, prints mebibytes.
const MEBIBYTE: f64 = 1_048_576.0;

/// What is held against today. The other figures follow from these, or only describe the run.
const COMPARED: [Measure; 3] = [
    Measure::RequestsPerSecond,
    Measure::LatencyP99Ms,
    Measure::MemoryMb,
];

/// The study's figures for one application, next to those that were measured today.
pub fn then_and_now(study: &Study, application: &Application, results: &Results) -> ThenAndNow {
    let today = Today {
        study,
        application,
        results,
        judgement: judge(results),
    };
    let findings = study.loads.iter().flat_map(|load| {
        let measures = COMPARED
            .iter()
            .filter(|measure| today.asked(load, **measure));
        measures
            .map(|measure| today.finding(load, *measure))
            .collect::<Vec<_>>()
    });
    ThenAndNow {
        title: study.title.clone(),
        source: source(study),
        method: method(study, application),
        findings: findings.collect(),
        notes: notes(study, application, results),
    }
}

/// All that the rows of a finding are made from.
struct Today<'a> {
    study: &'a Study,
    application: &'a Application,
    results: &'a Results,
    judgement: Judgement<'a>,
}

impl Today<'_> {
    /// Whether the load was sent, and the study has figures, or states a ratio, of this measure under it.
    fn asked(&self, load: &Load, measure: Measure) -> bool {
        let sent = match load.today.find_peak {
            true => !self.results.peaks.is_empty(),
            false => self.results.loads.iter().any(|one| one.id == load.id),
        };
        if !sent {
            return false;
        }
        let figures = self.study.participants.iter();
        let mut figures = figures.filter_map(|one| self.then(one, load, measure));
        figures.next().is_some() || self.claims(load, measure).next().is_some()
    }

    fn then(&self, participant: &Participant, load: &Load, measure: Measure) -> Option<f64> {
        self.study
            .figure(&participant.id, &self.application.id, &load.id, measure)
    }

    fn claims<'a>(&'a self, load: &'a Load, measure: Measure) -> impl Iterator<Item = &'a Claim> {
        self.study.claims.iter().filter(move |claim| {
            claim.application == self.application.id
                && claim.load == load.id
                && claim.measure == measure
        })
    }

    fn finding(&self, load: &Load, measure: Measure) -> Finding {
        // Ratios are relative to the first row, so the study's own reference is that.
        let reference = |one: &&Participant| one.id == self.study.reference;
        let first = self.study.participants.iter().filter(reference);
        let others = self.study.participants.iter().filter(|one| !reference(one));
        let rows: Vec<Row> = first
            .chain(others)
            .map(|one| self.row(one, load, measure))
            .collect();
        let peak = if load.today.find_peak && measure == Measure::RequestsPerSecond {
            "largest reply rate, "
        } else {
            ""
        };
        Finding {
            title: format!(
                "{}, {peak}{} ({})",
                self.application.name,
                measure.title(),
                load.id
            ),
            unit: measure.unit().to_owned(),
            more_is_better: measure.better() == Better::More,
            note: self.note(load, measure),
            ahead: self.pairs(load, measure, Verdict::Better),
            undecided: self.pairs(load, measure, Verdict::Unknown),
            rows,
        }
    }

    /// Every two stacks of which the first is to the second what `wanted` says.
    fn pairs(&self, load: &Load, measure: Measure, wanted: Verdict) -> Vec<(String, String)> {
        let stacks = || self.results.stacks.iter().map(|stack| stack.id.as_str());
        let pairs = stacks().flat_map(|first| stacks().map(move |second| (first, second)));
        let better = pairs.filter(|(first, second)| {
            let versus = self.versus(first, second, load, measure);
            versus.map_or(Verdict::Unknown, |(_, verdict)| verdict) == wanted
        });
        better
            .map(|(first, second)| (first.to_owned(), second.to_owned()))
            .collect()
    }

    fn row(&self, participant: &Participant, load: &Load, measure: Measure) -> Row {
        let id = participant.stack_in(self.results);
        let stack = self.results.stacks.iter().find(|stack| stack.id == id);
        let missing = self.results.missing.iter().find(|one| one.id == id);
        let absent =
            missing.map(|one| format!("Not measured: {}.", one.reason.trim_end_matches('.')));
        let earlier = participant.earlier_in(self.results);
        let known = [
            participant.stand_in.clone(),
            earlier.map(|earlier| earlier.difference.clone()),
            absent,
        ];
        let known: Vec<String> = known.into_iter().flatten().collect();
        Row {
            then_name: participant.name.clone(),
            then: self.then(participant, load, measure),
            stack: stack.map(|stack| stack.id.clone()),
            now_name: stack.map_or_else(String::new, |stack| stack.name.clone()),
            now: stack.and_then(|stack| self.now(&stack.id, load, measure)),
            set_aside: stack.is_some_and(|stack| self.is_set_aside(&stack.id, load, measure)),
            ratio: stack.and_then(|stack| self.ratio(&stack.id, load, measure)),
            stand_in: (!known.is_empty()).then(|| known.join(" ")),
        }
    }

    /// The finding that corresponds to the study's measure; `None` for memory as `free` shows it.
    fn judged(&self, load: &Load, measure: Measure) -> Option<&verdict::Finding<'_>> {
        match measure {
            Measure::RequestsPerSecond if load.today.find_peak => {
                self.judgement.finding(verdict::Measure::Replies, None)
            }
            Measure::RequestsPerSecond => self
                .judgement
                .finding(verdict::Measure::Rate, Some(&load.id)),
            Measure::LatencyP99Ms => self
                .judgement
                .finding(verdict::Measure::P99, Some(&load.id)),
            _ => None,
        }
    }

    /// Whether a stack's figure does not rank: too many of its trials describe something else.
    fn is_set_aside(&self, stack: &str, load: &Load, measure: Measure) -> bool {
        let finding = match measure {
            Measure::MemoryMb => self
                .memory_load(load)
                .and_then(|id| self.judgement.finding(verdict::Measure::Rate, Some(id))),
            _ => self.judged(load, measure),
        };
        let figure = finding.and_then(|finding| finding.of(stack));
        figure.is_some_and(|figure| figure.rank.is_none())
    }

    fn now(&self, stack: &str, load: &Load, measure: Measure) -> Option<Estimate> {
        if measure == Measure::MemoryMb {
            return Some(Sample::of_values(&self.memory(stack, load))?.estimate());
        }
        Some(self.judged(load, measure)?.of(stack)?.estimate)
    }

    /// A stack as a multiple of the study's own reference.
    fn ratio(&self, stack: &str, load: &Load, measure: Measure) -> Option<Estimate> {
        let reference = self.study.participant(&self.study.reference).ok()?;
        let set_aside = |stack| self.is_set_aside(stack, load, measure);
        let reference = reference.stack_in(self.results);
        if reference == stack || set_aside(stack) || set_aside(reference) {
            return None;
        }
        let (ratio, _) = self.versus(stack, reference, load, measure)?;
        Some(ratio)
    }

    /// A stack as a multiple of another one in the same rounds, and whether that is a difference.
    fn versus(
        &self,
        stack: &str,
        other: &str,
        load: &Load,
        measure: Measure,
    ) -> Option<(Estimate, Verdict)> {
        if measure != Measure::MemoryMb {
            let versus = self.judged(load, measure)?.versus(stack, other)?;
            return Some((versus.ratio?, versus.verdict));
        }
        let (own, others) = (self.memory(stack, load), self.memory(other, load));
        let common = |values: &[(usize, f64)], others: &[(usize, f64)]| {
            let shared = |round: usize| others.iter().any(|(other, _)| *other == round);
            let kept = values.iter().copied().filter(|(round, _)| shared(*round));
            Sample::of_values(&kept.collect::<Vec<_>>())
        };
        let ratio = common(&own, &others)?.ratio_to(&common(&others, &own)?)?;
        let rounds = own
            .iter()
            .filter(|(round, _)| others.iter().any(|(other, _)| other == round));
        let verdict = match rounds.count() < verdict::ROUNDS {
            true => Verdict::Unknown,
            false => verdict::verdict(ratio, verdict::NOISE, false),
        };
        Some((ratio, verdict))
    }

    /// The difference in `free` in every round whose trial counts. Of a search for the largest rate there is none, so
    /// that of the first closed loop is used.
    fn memory(&self, stack: &str, load: &Load) -> Vec<(usize, f64)> {
        let id = self.memory_load(load);
        let Some(counted) = id
            .and_then(|id| self.judgement.finding(verdict::Measure::Rate, Some(id)))
            .and_then(|finding| finding.of(stack))
        else {
            return Vec::new();
        };
        let counts = |round: usize| counted.values.iter().any(|(other, _)| *other == round);
        let trials = self.results.trials.iter().filter(|trial| {
            trial.stack == stack && Some(trial.load.as_str()) == id && counts(trial.round)
        });
        trials
            .map(|trial| (trial.round, free_difference(&trial.memory)))
            .collect()
    }

    fn memory_load(&self, load: &Load) -> Option<&str> {
        let own = self.results.loads.iter().find(|one| one.id == load.id);
        let any = || self.results.loads.iter().find(|one| !one.open);
        own.or_else(any).map(|load| load.id.as_str())
    }

    /// The largest rate that each stack held.
    fn held(&self) -> String {
        let finding = self.judgement.finding(verdict::Measure::Peak, None);
        let figures = finding.map_or(&[][..], |finding| &finding.figures);
        let each: Vec<String> = figures
            .iter()
            .map(|figure| {
                let stacks = &mut self.results.stacks.iter();
                let stack = stacks.find(|stack| stack.id == figure.stack);
                let name = stack.map_or(figure.stack, |stack| &stack.name);
                format!("{name} {:.1}", figure.estimate.value)
            })
            .collect();
        if each.is_empty() {
            return String::new();
        }
        let what = " The most good responses a second at any rate of the searches, as the text has it. Largest rate held:";
        format!("{what} {}.", each.join(", "))
    }

    fn note(&self, load: &Load, measure: Measure) -> String {
        let mut note = String::new();
        for claim in self.claims(load, measure) {
            note.push_str(&format!(" The text: \"{}\".", claim.quote));
        }
        if load.today.find_peak && measure == Measure::RequestsPerSecond {
            note.push_str(&self.held());
        }
        if measure == Measure::MemoryMb {
            note.push_str(
                " The difference in free includes all other changes of the machine's memory; rounds with a difference below zero \
                 are left out. The stack's own memory is among the load's figures.",
            );
        }
        if measure == Measure::MemoryMb && self.memory_load(load) != Some(load.id.as_str()) {
            let other = self.memory_load(load).unwrap_or("another load");
            note.push_str(&format!(" Memory of today is that after {other}."));
        }
        note.trim().to_owned()
    }
}

/// What `free` showed less after the load than after the stop, in MB as `free -m` counts them.
fn free_difference(memory: &MemoryUse) -> f64 {
    memory.free_difference as f64 / MEBIBYTE
}

fn source(study: &Study) -> String {
    let by = study
        .author
        .as_ref()
        .map_or_else(String::new, |author| format!("By {author}, "));
    let when = study.date.clone().unwrap_or_else(|| study.year.to_string());
    format!("{by}{when}. {}", study.question)
}

fn method(study: &Study, application: &Application) -> String {
    let mut text = format!(
        "{}: {}.",
        application.name,
        application.then.trim_end_matches('.')
    );
    for load in &study.loads {
        let warm_up = load.warm_up.as_ref();
        let warm_up = warm_up.map_or_else(String::new, |command| {
            format!("; before it, as warm-up: {command}")
        });
        let commands = load.commands.join("; ");
        text.push_str(&format!(" Sent with {}: {commands}{warm_up}.", load.tool));
    }
    let machine = [
        study.machine.server.join(", "),
        study.machine.client.join(", "),
    ];
    for (name, what) in ["Server", "Client"].iter().zip(machine) {
        if !what.is_empty() {
            text.push_str(&format!(" {name}: {what}."));
        }
    }
    if !study.software.is_empty() {
        let versions = study
            .software
            .iter()
            .map(|(name, version)| format!("{name} {version}"));
        text.push_str(&format!(
            " Software: {}.",
            versions.collect::<Vec<_>>().join("; ")
        ));
    }
    text
}

fn notes(study: &Study, application: &Application, results: &Results) -> Vec<String> {
    let mut notes = vec![
        format!(
            "Today {} replaces {}: {}.",
            application.today.app,
            application.name,
            application.today.why.trim_end_matches('.')
        ),
        format!(
            "Method of today: a fresh server for each trial, the stacks in turns, {} rounds, loads of a fixed length, \
             generator and server on one machine. Only good responses count.",
            results.rounds
        ),
    ];
    for load in &study.loads {
        if let Some(difference) = &load.today.difference {
            notes.push(format!("{}: {difference}", load.tool));
        }
    }
    if study
        .participants
        .iter()
        .any(|one| one.workers.is_none() && one.stack != super::ELSEWHERE)
    {
        notes.push(
            "The text does not say the number of workers: today every such stack has the same."
                .to_owned(),
        );
    }
    notes.extend(study.notes.iter().map(|note| format!("Then: {note}")));
    if !study.absent.is_empty() {
        notes.push(format!("Not in the text: {}.", study.absent.join("; ")));
    }
    notes
}

#[cfg(test)]
mod tests;
