//! The JSON of distributions (`flushlab.record.RandSpec`), read and checked.

use flushlab_rows::distribution::{Distribution, Gaussian, Pareto, Special, Zipfian};
use serde::Deserialize;

use crate::Error;

/// Most uniform draws whose mean one number is.
const MAX_ITERATIONS: u32 = 1000;
/// Steepest Zipf's law: with it all draws but one in 10^9 hit the first number of a range.
const MAX_EXPONENT: f64 = 30.0;

/// `flushlab.record.RandSpec`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JsonRand {
    spec_iter: u32,
    spec_pct: u32,
    spec_res: u32,
    pareto_h: f64,
    zipfian_exp: f64,
}

impl Default for JsonRand {
    fn default() -> Self {
        Self {
            spec_iter: 12,
            spec_pct: 1,
            spec_res: 75,
            pareto_h: 0.2,
            zipfian_exp: 0.8,
        }
    }
}

impl JsonRand {
    /// The distribution of that name with these parameters.
    pub fn distribution(&self, name: &str) -> Result<Distribution, Error> {
        within("rand_spec_iter", self.spec_iter, 1, MAX_ITERATIONS)?;
        within("rand_spec_pct", self.spec_pct, 0, 100)?;
        within("rand_spec_res", self.spec_res, 0, 100)?;
        if !(self.pareto_h > 0.0 && self.pareto_h < 1.0) {
            return Err(Error::usage(format!(
                "rand_pareto_h is {}; it must be above 0 and below 1",
                self.pareto_h
            )));
        }
        if !(0.0..=MAX_EXPONENT).contains(&self.zipfian_exp) {
            return Err(Error::usage(format!(
                "rand_zipfian_exp is {}; it must be between 0 and {MAX_EXPONENT}",
                self.zipfian_exp
            )));
        }
        Ok(match name {
            "special" => Distribution::Special(Special::new(self.spec_iter, self.spec_pct, self.spec_res)),
            "uniform" => Distribution::Uniform,
            "gaussian" => Distribution::Gaussian(Gaussian::new(self.spec_iter)),
            "pareto" => Distribution::Pareto(Pareto::new(self.pareto_h)),
            "zipfian" => Distribution::Zipfian(Zipfian::new(self.zipfian_exp)),
            _ => {
                return Err(Error::usage(format!(
                "rand_type {name:?} is not known; there are special, uniform, gaussian, pareto and zipfian"
            )))
            }
        })
    }
}

/// Refuses a value that is out of bounds.
pub(crate) fn within(name: &str, value: u32, least: u32, most: u32) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::usage(format!(
        "{name} is {value}; it must be between {least} and {most}"
    )))
}
