//! The rehearsal of a comparison: which stacks start and answer like the others, and how much of their answers can be
//! compared. It measures nothing.

use anyhow::Result;

use super::Session;
use crate::gate::{self, Answers, Likeness};
use crate::lab::Participant;
use crate::progress;
use crate::results::{Peak, Trial, Varying};

impl Session<'_, '_> {
    /// Starts each stack once: one that does not come up or answers something else than the others is found before
    /// anything is measured.
    pub(super) fn rehearse(&mut self) -> Result<()> {
        let names: Vec<&str> = self
            .participants
            .iter()
            .map(|participant| participant.id.as_str())
            .collect();
        eprintln!(
            "comparing {} on {}; results go to {}",
            names.join(", "),
            self.results.application.name,
            self.store.folder().display()
        );
        let (mut answered, mut asked) = (Vec::new(), Vec::new());
        for participant in self.participants.clone() {
            let what = format!("rehearsal, {} starts ", participant.id);
            self.context.live.set_subject(&what);
            let started = self
                .context
                .start(&participant, &format!("rehearsal-{}", participant.id))
                .and_then(|server| server.ask_again(self.context).map(|again| (server, again)));
            if self.stopped() {
                return Ok(());
            }
            match started {
                Ok((server, again)) => {
                    let line = format!("{} is up in {:.1} s", participant.id, server.trial.boot_s);
                    self.context.live.print(&line);
                    answered.push(participant);
                    asked.push([server.answers.clone(), again]);
                    server.stop();
                }
                Err(error) => self.leave_out(&participant, &format!("{error:#}"))?,
            }
        }
        let likeness = gate::likeness(&asked, self.context.likeness_at_most());
        let first: Vec<&Answers> = asked.iter().map(|[first, _]| first).collect();
        let agreed = gate::agreed(&first, &likeness);
        self.note_varying(&answered, &asked, &likeness);
        self.participants.clear();
        for (participant, asked) in answered.into_iter().zip(&asked) {
            let fault = |answers| gate::fault(agreed?, answers, &likeness);
            match asked.iter().find_map(fault) {
                None => self.participants.push(participant),
                Some(fault) => self.leave_out(&participant, &fault)?,
            }
        }
        self.context.agreed = agreed.cloned();
        self.context.likeness = likeness;
        self.store.save(&self.results)
    }

    /// Writes down of which pages less can be compared than was to be, and under whom that was found.
    fn note_varying(
        &mut self,
        participants: &[Participant],
        asked: &[[Answers; 2]],
        likeness: &[Likeness],
    ) {
        let most = self.context.likeness_at_most();
        let requests = self.context.requests.iter().enumerate().zip(likeness);
        for ((index, request), likeness) in requests.filter(|(_, likeness)| **likeness < most) {
            let differing = participants.iter().zip(asked);
            let differing = differing.filter(|(_, asked)| gate::differs(asked, index));
            let page = Varying {
                name: format!("{} {}", request.method, request.path),
                stacks: differing.map(|(one, _)| one.id.clone()).collect(),
                length: *likeness >= Likeness::Length,
            };
            let line = format!("{} differs each time it is asked for", page.name);
            self.context.live.print(&line);
            // A resumed comparison may have found it before.
            self.results.varying.retain(|one| one.name != page.name);
            self.results.varying.push(page);
        }
    }

    /// Records that `participant` can't be measured, once for everything that it was to take part in.
    fn leave_out(&mut self, participant: &Participant, reason: &str) -> Result<()> {
        let reason_line = progress::first_line(reason);
        let line = format!("{} is left out: {reason_line}", participant.id);
        self.context.live.print(&line);
        let lab = self.context.lab;
        let known = |stack: &str| stack == participant.id;
        let recorded =
            |trial: &Trial| known(&trial.stack) && trial.failure.as_deref() == Some(reason);
        if !self.results.trials.iter().any(recorded)
            && let Some((load, round)) = self.next_trial(&participant.id)
        {
            let trial = Trial {
                failure: Some(reason.to_owned()),
                ..self.blank(participant, &load, round)
            };
            self.record(trial)?;
        }
        if lab.searches() > 0 && !self.results.peaks.iter().any(|peak| known(&peak.stack)) {
            self.results.peaks.push(Peak {
                stack: participant.id.clone(),
                round: 1,
                failure: Some(reason.to_owned()),
                finished: true,
                ..Peak::default()
            });
        }
        self.store.save(&self.results)
    }
}
