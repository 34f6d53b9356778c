use crate::Bits;

/// Below this the quotients of [`log1p_over`] and [`expm1_over`] are taken from their series.
const NEAR_ZERO: f64 = 1e-8;

/// P(n) in proportion to 1/n^exponent, low numbers hottest: rejection-inversion (Hörmann and Derflinger,
/// "Rejection-inversion to generate variates from monotone discrete distributions", ACM TOMACS 6.3, 1996), for
/// every exponent from 0 on. sysbench 1.1's --rand-type=zipfian has the same law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zipfian {
    exponent: f64,
    /// A candidate this near above its x is accepted without looking further.
    squeeze: f64,
    /// The hat's integral at the left end of the first number.
    first: f64,
}

impl Zipfian {
    /// `exponent` is sysbench's --rand-zipfian-exp: finite, 0 or more.
    pub fn new(exponent: f64) -> Self {
        assert!(exponent >= 0.0 && exponent.is_finite());
        let mut this = Self {
            exponent,
            squeeze: 0.0,
            first: 0.0,
        };
        this.squeeze = 2.0 - this.inverse(this.integral(2.5) - this.hat(2.0));
        this.first = this.integral(1.5) - 1.0;
        this
    }

    #[inline]
    pub(super) fn offset(&self, random: &mut impl Bits, span: u64) -> u64 {
        let count = span as f64 + 1.0;
        let last = self.integral(count + 0.5);
        loop {
            let u = last + random.unit() * (self.first - last);
            let x = self.inverse(u);
            let number = (x + 0.5).floor().clamp(1.0, count);
            if number - x <= self.squeeze || u >= self.integral(number + 0.5) - self.hat(number) {
                return (number as u64 - 1).min(span);
            }
        }
    }

    /// 1/x^exponent.
    #[inline]
    fn hat(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The hat's integral from 1 to x: (x^(1-e) - 1) / (1 - e), or ln x for e = 1.
    #[inline]
    fn integral(&self, x: f64) -> f64 {
        let ln = x.ln();
        expm1_over((1.0 - self.exponent) * ln) * ln
    }

    /// The inverse of [`Self::integral`].
    #[inline]
    fn inverse(&self, y: f64) -> f64 {
        // Rounding may carry it below -1, where the logarithm ends.
        let t = (y * (1.0 - self.exponent)).max(-1.0);
        (log1p_over(t) * y).exp()
    }
}

/// ln(1 + x) / x.
#[inline]
fn log1p_over(x: f64) -> f64 {
    if x.abs() > NEAR_ZERO {
        x.ln_1p() / x
    } else {
        1.0 - x / 2.0
    }
}

/// (e^x - 1) / x.
#[inline]
fn expm1_over(x: f64) -> f64 {
    if x.abs() > NEAR_ZERO {
        x.exp_m1() / x
    } else {
        1.0 + x / 2.0
    }
}
