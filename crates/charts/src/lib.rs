//! The axes of charts, in the dashboard and in the lab's reports: from values to pixels, and which values get a tick. They
//! draw nothing.

/// A straight or logarithmic axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    domain: (f64, f64),
    pixels: (f64, f64),
    logarithmic: bool,
}

impl Scale {
    /// From zero, or from below it where `least` is, to a round value that is at least `most`.
    pub fn linear(least: f64, most: f64, ticks: usize, pixels: (f64, f64)) -> Self {
        let most = if most > least && most.is_finite() {
            most
        } else {
            least + 1.0
        };
        let step = round_step((most - least) / ticks as f64);
        Self {
            domain: (least, (most / step).ceil() * step),
            pixels,
            logarithmic: false,
        }
    }

    /// Exactly from `least` to `most`.
    pub fn exact(least: f64, most: f64, pixels: (f64, f64)) -> Self {
        Self {
            domain: (least, if most > least { most } else { least + 1.0 }),
            pixels,
            logarithmic: false,
        }
    }

    /// Logarithmic, from a value of 1, 2 or 5 times a power of ten to another around the positive values.
    pub fn logarithmic(least: f64, most: f64, pixels: (f64, f64)) -> Self {
        let least = match least > 0.0 && least.is_finite() {
            true => least,
            false => 0.1,
        };
        let most = match most.is_finite() {
            true => most.max(least * 1.01),
            false => least * 10.0,
        };
        let low = steps(least / 10.0, most)
            .filter(|step| *step <= least)
            .last();
        let high = steps(least, most * 10.0).find(|step| *step >= most);
        Self {
            domain: (low.unwrap_or(least), high.unwrap_or(most)),
            pixels,
            logarithmic: true,
        }
    }

    /// The pixel of a value; values outside the axis get its end.
    pub fn at(&self, value: f64) -> f64 {
        let (low, high) = self.domain;
        let value = value.clamp(low, high);
        let share = if self.logarithmic {
            (value / low).ln() / (high / low).ln()
        } else {
            (value - low) / (high - low)
        };
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }

    /// Whether a value is on the axis.
    pub fn contains(&self, value: f64) -> bool {
        (self.domain.0..=self.domain.1).contains(&value)
    }

    /// The largest value.
    pub fn end(&self) -> f64 {
        self.domain.1
    }

    /// Round values along the axis, about so many; a logarithmic axis decides itself.
    pub fn ticks(&self, about: usize) -> Vec<f64> {
        let (low, high) = self.domain;
        if self.logarithmic {
            let fine: Vec<f64> = steps(low, high).collect();
            let decades = fine.iter().copied().filter(|tick| is_decade(*tick));
            let decades: Vec<f64> = decades.collect();
            return if fine.len() > about + 2 && decades.len() > 1 {
                decades
            } else {
                fine
            };
        }
        let step = round_step((high - low) / about as f64);
        let first = (low / step).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        (first..=last).map(|index| index as f64 * step).collect()
    }
}

/// 1, 2 and 5 times the powers of ten within the bounds, ascending.
fn steps(low: f64, high: f64) -> impl Iterator<Item = f64> {
    let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    decades
        .flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade)))
        .filter(move |step| *step >= low * (1.0 - 1e-9) && *step <= high * (1.0 + 1e-9))
}

fn is_decade(value: f64) -> bool {
    let log = value.log10();
    (log - log.round()).abs() < 1e-9
}

fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let digit = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .find(|digit| digit * power >= step * (1.0 - 1e-9));
    digit.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straight_axis_ends_at_a_round_value() {
        let scale = Scale::linear(0.0, 6_920.0, 4, (0.0, 100.0));
        assert_eq!(scale.ticks(4), [0.0, 2000.0, 4000.0, 6000.0, 8000.0]);
        assert_eq!(scale.at(0.0), 0.0);
        assert_eq!(scale.at(8_000.0), 100.0);
        assert_eq!(scale.at(9_000.0), 100.0, "nothing is drawn outside");
    }

    #[test]
    fn a_logarithmic_axis_has_its_decades_at_equal_distances() {
        let scale = Scale::logarithmic(1.2, 900.0, (300.0, 0.0));
        assert_eq!(scale.ticks(4), [1.0, 10.0, 100.0, 1000.0]);
        assert!((scale.at(10.0) - 200.0).abs() < 1e-9);
        let narrow = Scale::logarithmic(21.0, 48.0, (0.0, 1.0));
        assert_eq!(narrow.ticks(4), [20.0, 50.0]);
    }

    #[test]
    fn no_value_one_or_infinite_ones_still_give_an_axis() {
        for scale in [
            Scale::linear(0.0, 0.0, 4, (0.0, 1.0)),
            Scale::linear(0.0, f64::INFINITY, 4, (0.0, 1.0)),
            Scale::logarithmic(0.0, 0.0, (0.0, 1.0)),
            Scale::logarithmic(f64::INFINITY, 0.0, (0.0, 1.0)),
            Scale::logarithmic(1.0, f64::INFINITY, (0.0, 1.0)),
            Scale::exact(2.0, 2.0, (0.0, 1.0)),
        ] {
            assert!(scale.at(2.0).is_finite() && !scale.ticks(4).is_empty());
        }
    }
}
