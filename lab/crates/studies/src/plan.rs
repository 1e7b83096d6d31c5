//! From a study to comparisons that the lab can run: one for each application, with today's stacks in the places of
//! the participants, as many workers as published, and the loads that stand for those of then. It starts nothing.

use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::{Application, ELSEWHERE, Load, Participant, Study};
use compare::lab::{self, FindPeak, Lab, Setting};

/// What is wanted of a study.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StudyFilter {
    /// Applications by their ids; all where it is empty.
    pub applications: Vec<String>,
    /// Participants by their ids; all where it is empty.
    pub participants: Vec<String>,
    /// Loads by their ids; all where it is empty.
    pub loads: Vec<String>,
    /// Stacks that did not take part then.
    pub also: Vec<String>,
    /// How often each stack is measured.
    pub trials: Option<usize>,
    /// Searches for the largest rate of each stack, where a load is a series of rates.
    pub searches: Option<usize>,
    /// Length of each load.
    pub duration: Option<Duration>,
    /// The longest that a warm-up may take.
    pub warm_up: Option<Duration>,
}

/// One application of a study and today's comparison for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Part<'a> {
    /// The application of then.
    pub application: &'a Application,
    /// What is run.
    pub lab: Lab,
}

/// The comparisons of a study, one for each application.
///
/// # Errors
/// The filter names something that the study does not have, or nothing is left to compare.
pub fn plan<'a>(study: &'a Study, filter: &StudyFilter) -> Result<Vec<Part<'a>>> {
    for id in &filter.applications {
        study.application(id)?;
    }
    for id in &filter.participants {
        study.participant(id)?;
    }
    for id in &filter.loads {
        study.load_of(id)?;
    }
    let chosen = |ids: &[String], id: &String| ids.is_empty() || ids.contains(id);
    let applications = study
        .applications
        .iter()
        .filter(|application| chosen(&filter.applications, &application.id));
    let loads: Vec<&Load> = study
        .loads
        .iter()
        .filter(|load| chosen(&filter.loads, &load.id))
        .collect();
    // The lab holds others against its first stack, so the study's own reference comes first.
    let mut participants: Vec<&Participant> = study
        .participants
        .iter()
        .filter(|one| chosen(&filter.participants, &one.id) && one.stack != ELSEWHERE)
        .collect();
    participants.sort_by_key(|one| one.id != study.reference);
    applications
        .map(|application| {
            let lab = comparison(study, application, &loads, &participants, filter)?;
            Ok(Part { application, lab })
        })
        .collect()
}

fn comparison(
    study: &Study,
    application: &Application,
    loads: &[&Load],
    participants: &[&Participant],
    filter: &StudyFilter,
) -> Result<Lab> {
    let mut lab = Lab {
        title: format!("{}, {}: then and now", study.id, application.name),
        app: application.today.app.clone(),
        ..Lab::default()
    };
    for one in participants {
        if lab.stacks.contains(&one.stack) {
            continue;
        }
        lab.stacks.push(one.stack.clone());
        if let Some(workers) = one.workers {
            let setting = Setting {
                workers: Some(workers),
                ..Setting::default()
            };
            lab.settings.insert(one.stack.clone(), setting);
        }
    }
    let most = participants.iter().filter_map(|one| one.workers).max();
    for stack in &filter.also {
        ensure!(
            !lab.stacks.contains(stack),
            "{stack} takes part already; --also is for others"
        );
        lab.stacks.push(stack.clone());
        if most.is_some() {
            let setting = Setting {
                workers: most,
                ..Setting::default()
            };
            lab.settings.insert(stack.clone(), setting);
        }
    }
    if lab.stacks.is_empty() {
        bail!("none of these participants can be started here");
    }
    for load in loads {
        match load.today.connections {
            Some(connections) => lab.loads.push(lab::Load {
                id: load.id.clone(),
                calls: load.today.calls,
                ..lab::Load::closed(connections)
            }),
            None => {
                // The published figure is the most that was answered at any rate, however late: a narrower limit would end
                // the search before it has seen that.
                lab.find_peak = Some(FindPeak {
                    p99: Some(lab.timeout),
                    trials: filter.searches,
                    ..FindPeak::default()
                });
            }
        }
    }
    lab.trials = filter.trials.unwrap_or(lab.trials);
    lab.duration = filter.duration.unwrap_or(lab.duration);
    lab.warm_up = filter.warm_up.unwrap_or(lab.warm_up);
    lab.check()?;
    Ok(lab)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::small;

    #[test]
    fn a_study_becomes_a_comparison_with_its_reference_first() {
        let study = small();
        let filter = StudyFilter {
            trials: Some(3),
            duration: Some(Duration::from_secs(4)),
            also: vec!["highball".to_owned()],
            ..StudyFilter::default()
        };
        let parts = plan(&study, &filter).unwrap();
        assert_eq!(parts.len(), 1);
        let lab = &parts[0].lab;
        assert_eq!(lab.app, "hello");
        assert_eq!(lab.stacks, ["thin", "nginx+thin", "highball"]);
        assert_eq!(lab.participant("nginx+thin").workers, 4);
        assert_eq!(lab.participant("highball").workers, 4);
        assert_eq!((lab.trials, lab.duration), (3, Duration::from_secs(4)));
        assert_eq!(
            (lab.loads[0].id(), lab.loads[0].calls),
            ("ab".to_owned(), Some(1))
        );
        let find = lab.find_peak.as_ref().unwrap();
        assert_eq!(find.p99, Some(lab.timeout));
    }

    #[test]
    fn names_that_the_study_does_not_have_are_refused() {
        let check = |filter: StudyFilter, expect: &str| {
            let error = plan(&small(), &filter).unwrap_err();
            assert_eq!(format!("{error:#}"), expect);
        };
        let names = |name: &str| vec![name.to_owned()];
        check(
            StudyFilter {
                applications: names("pge"),
                ..StudyFilter::default()
            },
            "there is no application pge; the nearest is page",
        );
        check(
            StudyFilter {
                participants: names("cluter"),
                ..StudyFilter::default()
            },
            "there is no participant cluter; the nearest is cluster",
        );
        check(
            StudyFilter {
                participants: names("gone"),
                ..StudyFilter::default()
            },
            "none of these participants can be started here",
        );
        check(
            StudyFilter {
                also: names("thin"),
                ..StudyFilter::default()
            },
            "thin takes part already; --also is for others",
        );
    }
}
