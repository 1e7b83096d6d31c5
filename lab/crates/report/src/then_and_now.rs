//! A study's published figures next to today's, as plain data, and two questions about them: are the ratios the same, and
//! is the ranking the same? It measures nothing; the crate `studies` fills it, the report prints it.

use compare::statistics::Estimate;

/// The part of a report that holds a study's figures against today's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThenAndNow {
    /// The study's title.
    pub title: String,
    /// Who published it, when and where, in a sentence.
    pub source: String,
    /// What was measured then and how, in a sentence or two; may be empty.
    pub method: String,
    /// One for every measure on every application that the study gives figures of.
    pub findings: Vec<Finding>,
    /// Notes on the comparison as a whole: what differs, which program replaces which.
    pub notes: Vec<String>,
}

/// One measure on one application, of every participant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finding {
    /// Of what: `Largest rate, Instiki's /wiki/list`.
    pub title: String,
    /// Of both columns: `requests/s`, `MB`.
    pub unit: String,
    /// Whether more is better (rates) or less (memory, times).
    pub more_is_better: bool,
    /// One a participant, the study's reference first. Ratios are relative to the first row that has both figures.
    pub rows: Vec<Row>,
    /// Ids of stacks of which the first is better than the second today, with 95 % confidence, in the same rounds. Two
    /// that are here in neither order are too close to call, unless they are in `undecided`.
    pub ahead: Vec<(String, String)>,
    /// Ids of two stacks of which too few rounds are in common for a verdict, in either order.
    pub undecided: Vec<(String, String)>,
    /// Note on this measure; may be empty.
    pub note: String,
}

/// A participant then and what was measured in its place now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// As the study names it, with its version.
    pub then_name: String,
    /// The published figure; `None` where the study has none.
    pub then: Option<f64>,
    /// The stack's id in the results; `None` where nothing could be measured.
    pub stack: Option<String>,
    /// What runs today, for people: `Apache before 2 Thins`; empty where nothing does.
    pub now_name: String,
    /// The figure of today with its interval; `None` where there is none.
    pub now: Option<Estimate>,
    /// Whether that figure does not rank, because the generator was the limit or too much failed: the report shows it, and it is
    /// part of no ratio and no order.
    pub set_aside: bool,
    /// The same as a multiple of the reference's in the same rounds, in which what both share cancels out; `None` for
    /// the reference, and where one of the two has no figure.
    pub ratio: Option<Estimate>,
    /// The replacement and the reason for it, or why there is none; `None` where the same program runs.
    pub stand_in: Option<String>,
}

/// Whether the participants finish in the same order as then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Every pair that differed then has the same order now.
    Same,
    /// No pair is reversed, but these are too close to call today (names of today).
    SameAsFarAsKnown(Vec<(String, String)>),
    /// Of these pairs the first was better then and the second is better now (names of today).
    Different(Vec<(String, String)>),
    /// Every pair is too close to call today.
    TooClose,
    /// No pair has a verdict today, and some have too few rounds for one.
    TooFewRounds,
    /// There are not two rows with both figures, those of today such as rank.
    Unknown,
}

impl Row {
    /// The figure of today where it ranks.
    fn counted(&self) -> Option<Estimate> {
        self.now.filter(|_| !self.set_aside)
    }
}

impl Finding {
    /// The row that ratios are relative to: the first with both figures, where there is one whose figure of today ranks.
    pub fn reference(&self) -> Option<&Row> {
        let published = |row: &&Row| row.then.is_some_and(|then| then > 0.0);
        let mut both = self.rows.iter().filter(published);
        both.clone()
            .find(|row| row.counted().is_some())
            .or_else(|| both.find(|row| row.now.is_some()))
    }

    /// A row's figures as multiples of the reference's: then and now, `None` where one of the two has no figure.
    pub fn ratios(&self, row: &Row) -> (Option<f64>, Option<f64>) {
        let Some((reference, published)) = self.reference().and_then(|row| Some((row, row.then?)))
        else {
            return (None, None);
        };
        let quotient = row.counted().zip(reference.counted());
        let quotient = quotient
            .filter(|(_, reference)| reference.value > 0.0)
            .map(|(own, reference)| own.value / reference.value);
        let now = row.ratio.map(|ratio| ratio.value).or(quotient);
        (row.then.map(|value| value / published), now)
    }

    /// Whether the order of finish is the same. Two rows with the same stack are no pair: they are the same trials.
    pub fn order(&self) -> Order {
        let known = self.rows.iter();
        let known = known.filter_map(|row| {
            Some((row, row.then?, row.stack.as_ref()?)).filter(|_| row.counted().is_some())
        });
        let known: Vec<(&Row, f64, &String)> = known.collect();
        let (mut swapped, mut open, mut pairs) = (Vec::new(), Vec::new(), 0);
        let mut too_few = false;
        for (index, first) in known.iter().enumerate() {
            for second in &known[index + 1..] {
                let (better, worse) = match first.1.total_cmp(&second.1) {
                    _ if first.2 == second.2 => continue,
                    std::cmp::Ordering::Equal => continue,
                    order if order.is_gt() == self.more_is_better => (first, second),
                    _ => (second, first),
                };
                pairs += 1;
                let names = || (better.0.now_name.clone(), worse.0.now_name.clone());
                if self.is_ahead(worse.2, better.2) {
                    swapped.push(names());
                } else if !self.is_ahead(better.2, worse.2) {
                    open.push(names());
                    too_few |= self.is_undecided(better.2, worse.2);
                }
            }
        }
        match (pairs, swapped.is_empty(), open.is_empty()) {
            (0, _, _) => Order::Unknown,
            (_, false, _) => Order::Different(swapped),
            (_, true, false) if open.len() == pairs && too_few => Order::TooFewRounds,
            (_, true, false) if open.len() == pairs => Order::TooClose,
            (_, true, false) => Order::SameAsFarAsKnown(open),
            (_, true, true) => Order::Same,
        }
    }

    fn is_undecided(&self, one: &str, other: &str) -> bool {
        let mut undecided = self.undecided.iter();
        undecided.any(|(first, second)| {
            (first == one && second == other) || (first == other && second == one)
        })
    }

    fn is_ahead(&self, better: &str, worse: &str) -> bool {
        let mut ahead = self.ahead.iter();
        ahead.any(|(first, second)| first == better && second == worse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, then: f64, now: f64) -> Row {
        Row {
            then_name: format!("{name} of old"),
            then: Some(then),
            stack: Some(name.to_owned()),
            now_name: name.to_owned(),
            now: Some(Estimate {
                value: now,
                low: now * 0.97,
                high: now * 1.03,
            }),
            set_aside: false,
            ratio: None,
            stand_in: None,
        }
    }

    /// Two rows have a verdict where their figures of today differ by more than a twentieth.
    fn finding(rows: Vec<Row>) -> Finding {
        let value = |row: &Row| row.now.map_or(0.0, |now| now.value);
        let mut ahead = Vec::new();
        for first in &rows {
            let behind = rows
                .iter()
                .filter(|second| value(first) > 1.05 * value(second));
            ahead.extend(behind.map(|second| (first.now_name.clone(), second.now_name.clone())));
        }
        Finding {
            more_is_better: true,
            rows,
            ahead,
            ..Finding::default()
        }
    }

    #[test]
    fn ratios_are_relative_to_the_first_row_with_both_figures() {
        let mut gone = row("webroar", 188.8, 1.0);
        gone.now = None;
        let finding = finding(vec![
            gone,
            row("thin", 178.4, 500.0),
            row("mongrel", 123.8, 250.0),
        ]);
        let (then, now) = finding.ratios(&finding.rows[2]);
        assert!((then.unwrap() - 0.694).abs() < 0.001);
        assert_eq!(now, Some(0.5));
        let (then, now) = finding.ratios(&finding.rows[0]);
        assert!(then.unwrap() > 1.0);
        assert_eq!(now, None);
    }

    #[test]
    fn an_order_of_finish_is_the_same_different_or_open() {
        let order = |now: [f64; 3]| {
            finding(vec![
                row("a", 3.0, now[0]),
                row("b", 2.0, now[1]),
                row("c", 1.0, now[2]),
            ])
            .order()
        };
        let pair = |first: &str, second: &str| vec![(first.to_owned(), second.to_owned())];
        assert_eq!(order([300.0, 200.0, 100.0]), Order::Same);
        assert_eq!(
            order([300.0, 100.0, 200.0]),
            Order::Different(pair("b", "c"))
        );
        assert_eq!(
            order([300.0, 295.0, 100.0]),
            Order::SameAsFarAsKnown(pair("a", "b"))
        );
        assert_eq!(order([300.0, 299.0, 298.0]), Order::TooClose);
        assert_eq!(finding(vec![row("a", 3.0, 3.0)]).order(), Order::Unknown);
    }

    #[test]
    fn too_few_rounds_are_no_tie() {
        let mut finding = finding(vec![row("a", 2.0, 100.0), row("b", 1.0, 101.0)]);
        assert_eq!(finding.order(), Order::TooClose);
        finding.undecided = vec![("b".to_owned(), "a".to_owned())];
        assert_eq!(finding.order(), Order::TooFewRounds);
    }

    #[test]
    fn a_figure_that_does_not_rank_enters_no_ratio_and_no_order() {
        let mut rows = vec![
            row("a", 3.0, 900.0),
            row("b", 2.0, 200.0),
            row("c", 1.0, 100.0),
        ];
        rows[0].set_aside = true;
        let mut finding = finding(rows);
        assert_eq!(finding.reference().unwrap().now_name, "b");
        assert_eq!(finding.ratios(&finding.rows[0]), (Some(1.5), None));
        assert_eq!(finding.ratios(&finding.rows[2]), (Some(0.5), Some(0.5)));
        finding.rows[1].set_aside = true;
        assert_eq!(finding.order(), Order::Unknown);
        finding.rows[2].set_aside = true;
        assert_eq!(finding.ratios(&finding.rows[0]), (Some(1.0), None));
    }

    #[test]
    fn of_memory_less_is_better() {
        let finding = Finding {
            rows: vec![row("a", 100.0, 50.0), row("b", 200.0, 80.0)],
            ahead: vec![("a".to_owned(), "b".to_owned())],
            ..Finding::default()
        };
        assert_eq!(finding.order(), Order::Same);
    }

    #[test]
    fn a_ratio_of_the_same_rounds_wins_over_the_quotient() {
        let ratio = Estimate {
            value: 0.6,
            low: 0.5,
            high: 0.7,
        };
        let mut second = row("b", 1.0, 1.0);
        second.ratio = Some(ratio);
        let finding = finding(vec![row("a", 2.0, 2.0), second]);
        assert_eq!(finding.ratios(&finding.rows[1]).1, Some(0.6));
    }

    #[test]
    fn the_same_stack_in_two_rows_is_no_pair() {
        let twice = vec![row("a", 2.0, 5.0), row("a", 1.0, 5.0)];
        assert_eq!(finding(twice).order(), Order::Unknown);
    }
}
