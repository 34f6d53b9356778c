//! When events are due in an open loop: a constant rate or a profile, at even distances or as a Poisson
//! process. Pure: it is told what time it is.

use std::time::{Duration, Instant};

use flushlab_rows::{Bits, Random};
use serde::{Deserialize, Serialize};

use crate::Error;

/// Lowest intended rate per second: one in a quarter of an hour.
const MIN_RATE: f64 = 0.001;
/// Highest intended rate per second, far above what any server reaches.
const MAX_RATE: f64 = 10_000_000.0;
/// Longest part of a profile.
const MAX_SECONDS: f64 = 86_400.0;
/// Most steps of a profile.
const MAX_STEPS: usize = 1000;

const PROFILES: &str =
    "a profile is ramp:FROM-TO/SECONDSs (as ramp:100-5000/60s), step:RATE,RATE,…/SECONDSs \
     (as step:1000,2000,4000/10s) or burst:LOW-HIGH/SECONDSs/PERIODs (as burst:1000-5000/1s/10s)";

/// A piece of time in which the rate is constant or changes evenly.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Piece {
    seconds: f64,
    /// Events per second at its beginning and its end.
    from: f64,
    to: f64,
}

impl Piece {
    fn flat(seconds: f64, rate: f64) -> Self {
        Self {
            seconds,
            from: rate,
            to: rate,
        }
    }

    /// Events in its first `seconds`.
    fn events(&self, seconds: f64) -> f64 {
        seconds * (self.from + (self.to - self.from) * seconds / (2.0 * self.seconds))
    }

    /// Seconds until so many events were due.
    fn seconds_of(&self, events: f64) -> f64 {
        if events <= 0.0 {
            return 0.0;
        }
        // The positive root of `events(x) = events`, in the form that is stable for even rates.
        let slope = (self.to - self.from) / self.seconds;
        let root = (self.from * self.from + 2.0 * slope * events).max(0.0).sqrt();
        2.0 * events / (self.from + root)
    }
}

/// Rates over time.
#[derive(Debug, Clone, PartialEq)]
struct Profile {
    pieces: Vec<Piece>,
    /// Begins anew after its last piece; else the last rate holds.
    repeats: bool,
}

impl Profile {
    fn constant(rate: f64) -> Self {
        Self {
            pieces: vec![Piece::flat(MAX_SECONDS, rate)],
            repeats: true,
        }
    }

    fn first_rate(&self) -> f64 {
        let rates = self.pieces.iter().flat_map(|piece| [piece.from, piece.to]);
        rates.into_iter().find(|&rate| rate > 0.0).unwrap_or(MIN_RATE)
    }

    fn scaled(mut self, factor: f64) -> Self {
        for piece in &mut self.pieces {
            piece.from *= factor;
            piece.to *= factor;
        }
        self
    }

    fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || Error::usage(format!("profile {text:?} is not known; {PROFILES}"));
        let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
        let mut parts = rest.split('/');
        let (rates, times): (&str, Vec<&str>) = (parts.next().unwrap_or(""), parts.collect());
        let times: Vec<f64> = times
            .iter()
            .map(|time| seconds(time, text))
            .collect::<Result<_, _>>()?;
        let (pieces, repeats) = match (kind, &times[..]) {
            ("ramp", &[seconds]) => {
                let (from, to) = pair(rates, text)?.ok_or_else(wrong)?;
                (
                    vec![Piece { seconds, from, to }, Piece::flat(MAX_SECONDS, to)],
                    false,
                )
            }
            ("step", &[seconds]) => {
                let steps = rates.split(',').map(|word| rate(word, text));
                let steps: Vec<f64> = steps.collect::<Result<_, _>>()?;
                if steps.len() > MAX_STEPS {
                    return Err(Error::usage(format!(
                        "profile has {} steps; {MAX_STEPS} are possible",
                        steps.len()
                    )));
                }
                let flat = steps.into_iter().map(|rate| Piece::flat(seconds, rate));
                (flat.collect(), false)
            }
            ("burst", &[seconds, period]) if seconds < period => {
                let (low, high) = pair(rates, text)?.ok_or_else(wrong)?;
                (
                    vec![Piece::flat(period - seconds, low), Piece::flat(seconds, high)],
                    true,
                )
            }
            _ => return Err(wrong()),
        };
        if pieces.iter().all(|piece| piece.from <= 0.0 && piece.to <= 0.0) {
            return Err(Error::usage(format!("profile {text:?} has no rate above 0")));
        }
        Ok(Self { pieces, repeats })
    }
}

fn pair(words: &str, text: &str) -> Result<Option<(f64, f64)>, Error> {
    match words.split_once('-') {
        Some((one, other)) => Ok(Some((rate(one, text)?, rate(other, text)?))),
        None => Ok(None),
    }
}

fn rate(word: &str, text: &str) -> Result<f64, Error> {
    match word.trim().parse() {
        Ok(rate) if rate == 0.0 || (MIN_RATE..=MAX_RATE).contains(&rate) => Ok(rate),
        _ => Err(Error::usage(format!(
            "profile {text:?}: {word:?} is no rate; it must be 0 or between {MIN_RATE} and {MAX_RATE} per second"
        ))),
    }
}

fn seconds(word: &str, text: &str) -> Result<f64, Error> {
    match word.trim().strip_suffix('s').map(|number| number.trim().parse()) {
        Some(Ok(seconds)) if (0.001..=MAX_SECONDS).contains(&seconds) => Ok(seconds),
        _ => Err(Error::usage(format!(
            "profile {text:?}: {word:?} is no time; it must be seconds as 10s, between 0.001 and {MAX_SECONDS}"
        ))),
    }
}

/// What an open loop asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    profile: Profile,
    /// A profile begins with the measured window; a constant rate has no beginning.
    anchored: bool,
    poisson: bool,
}

impl Plan {
    /// The plan of `rate` or `profile` per second, of which an event has `amount`; none in a closed loop.
    pub fn parse(rate: f64, profile: &str, kind: &str, amount: u32) -> Result<Option<Self>, Error> {
        let poisson = match kind {
            "constant" => false,
            "poisson" => true,
            _ => {
                return Err(Error::usage(format!(
                    "rate_kind {kind:?} is not known; there are constant and poisson"
                )))
            }
        };
        if rate != 0.0 && !(MIN_RATE..=MAX_RATE).contains(&rate) {
            return Err(Error::usage(format!(
                "rate is {rate}; it must be 0 (no rate) or between {MIN_RATE} and {MAX_RATE} per second"
            )));
        }
        let (profile, anchored) = match (rate, profile) {
            (0.0, "") if poisson => return Err(Error::usage("rate_kind is poisson, but there is no rate")),
            (0.0, "") => return Ok(None),
            (0.0, text) => (Profile::parse(text)?, true),
            (rate, "") => (Profile::constant(rate), false),
            _ => return Err(Error::usage("rate and profile exclude each other")),
        };
        Ok(Some(Self {
            profile: profile.scaled(1.0 / f64::from(amount)),
            anchored,
            poisson,
        }))
    }

    /// The plan of a part of the load.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            profile: self.profile.scaled(factor),
            ..self
        }
    }
}

/// Refuses a rate, a profile and a kind that make no schedule, before there is a server to load.
pub fn check_schedule(rate: f64, profile: &str, kind: &str) -> Result<(), Error> {
    Plan::parse(rate, profile, kind, 1).map(|_| ())
}

/// Where one is in a profile: it only goes forward.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    piece: usize,
    /// Seconds and events before that piece.
    seconds: f64,
    events: f64,
}

impl Position {
    /// The piece in which `inside` holds, and what was before it.
    fn seek(&mut self, profile: &Profile, inside: impl Fn(&Self, &Piece) -> bool) -> Option<Piece> {
        loop {
            let piece = profile.pieces[self.piece];
            if inside(self, &piece) {
                return Some(piece);
            }
            let is_last = self.piece + 1 == profile.pieces.len();
            self.seconds += piece.seconds;
            self.events += piece.events(piece.seconds);
            match (is_last, profile.repeats) {
                (false, _) => self.piece += 1,
                (true, true) => self.piece = 0,
                // The last rate holds for ever; if it is 0, nothing is due any more.
                (true, false) if piece.to > 0.0 => {}
                (true, false) => return None,
            }
        }
    }

    /// When that many events were due, in seconds; never, if none.
    fn seconds_of(&mut self, profile: &Profile, events: f64) -> Option<f64> {
        let piece = self.seek(profile, |before, piece| {
            events < before.events + piece.events(piece.seconds)
        })?;
        Some(self.seconds + piece.seconds_of(events - self.events))
    }

    /// How many events were due by then.
    fn events_by(&mut self, profile: &Profile, seconds: f64) -> f64 {
        match self.seek(profile, |before, piece| seconds < before.seconds + piece.seconds) {
            Some(piece) => self.events + piece.events(seconds - self.seconds),
            None => self.events,
        }
    }
}

/// Draws the instants of events, one after the other.
#[derive(Debug, Clone)]
struct Arrivals {
    position: Position,
    /// In events, on the axis where they are due at the rate 1.
    mark: f64,
    random: Option<Random>,
    /// Seconds of the next event.
    next: Option<f64>,
}

impl Arrivals {
    fn new(profile: &Profile, random: Option<Random>) -> Self {
        let mut arrivals = Self {
            position: Position::default(),
            mark: 0.0,
            random,
            next: None,
        };
        arrivals.advance(profile, 0.0);
        arrivals
    }

    fn advance(&mut self, profile: &Profile, constant_step: f64) {
        self.mark += match &mut self.random {
            None => constant_step,
            Some(random) => -(1.0 - random.unit()).ln(),
        };
        self.next = self.position.seconds_of(profile, self.mark);
    }
}

/// What became of a schedule in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OfferedLoad {
    /// Events that were due in the window.
    pub due: u64,
    /// Most events that were due and not begun.
    pub backlog_most: u64,
    /// How many of them there were at its end.
    pub backlog_end: u64,
}

/// The answer to "which event is next?".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// One that was due then: it is taken.
    Due(Instant),
    /// None before that.
    Later(Instant),
    /// None ever again.
    Over,
}

/// An open loop that runs: whoever is free takes the next event.
#[derive(Debug)]
pub(crate) struct Schedule {
    plan: Plan,
    profile: Profile,
    /// Draws the gaps of a Poisson process, from the beginning.
    random: Random,
    start: Instant,
    taking: Arrivals,
    taken: u64,
    /// A second cursor over the same instants that counts what is due.
    counting: Arrivals,
    due: u64,
    due_before: u64,
    backlog_most: u64,
}

impl Schedule {
    /// Begins at `start`. A profile begins with the window; until then its first rate above 0 holds.
    pub fn new(plan: Plan, random: Random, start: Instant) -> Self {
        let profile = if plan.anchored {
            Profile::constant(plan.profile.first_rate())
        } else {
            plan.profile.clone()
        };
        Self::of(plan, profile, random, start)
    }

    fn of(plan: Plan, profile: Profile, random: Random, start: Instant) -> Self {
        let arrivals = Arrivals::new(&profile, plan.poisson.then(|| random.clone()));
        Self {
            plan,
            random,
            start,
            taking: arrivals.clone(),
            taken: 0,
            counting: arrivals,
            due: 0,
            due_before: 0,
            backlog_most: 0,
            profile,
        }
    }

    /// Takes the next event if it is due.
    pub fn take(&mut self, now: Instant) -> Take {
        let Some(next) = self.taking.next else {
            return Take::Over;
        };
        let due = self.start + Duration::from_secs_f64(next);
        if due > now {
            return Take::Later(due);
        }
        let backlog = self.backlog(now);
        self.backlog_most = self.backlog_most.max(backlog);
        self.taking.advance(&self.profile, 1.0);
        self.taken += 1;
        Take::Due(due)
    }

    /// Events that are due by now and not begun.
    pub fn backlog(&mut self, now: Instant) -> u64 {
        let seconds = now.saturating_duration_since(self.start).as_secs_f64();
        if self.plan.poisson {
            while self.counting.next.is_some_and(|next| next <= seconds) {
                self.due += 1;
                self.counting.advance(&self.profile, 1.0);
            }
        } else {
            // Number n, from 0, is due when n events are behind it; the rounding of the sum is forgiven.
            let behind = self.counting.position.events_by(&self.profile, seconds);
            self.due = (behind - 1e-6).ceil() as u64;
        }
        self.due = self.due.max(self.taken);
        self.due - self.taken
    }

    /// A pause is over: everything is due so much later.
    pub fn shift(&mut self, paused: Duration) {
        self.start += paused;
    }

    /// A window opens: what is told later counts from here, and a profile begins. What was due before and
    /// has not begun is forgotten with the rate that it belonged to.
    pub fn open_window(&mut self, now: Instant) {
        if self.plan.anchored {
            *self = Self::of(
                self.plan.clone(),
                self.plan.profile.clone(),
                self.random.clone(),
                now,
            );
        }
        self.backlog_most = self.backlog(now);
        self.due_before = self.due;
    }

    /// What became of it in the window that ends now.
    pub fn close_window(&mut self, now: Instant) -> OfferedLoad {
        let backlog_end = self.backlog(now);
        OfferedLoad {
            due: self.due - self.due_before,
            backlog_most: self.backlog_most.max(backlog_end),
            backlog_end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rate: f64, profile: &str, kind: &str) -> Plan {
        Plan::parse(rate, profile, kind, 1).unwrap().unwrap()
    }

    fn after(start: Instant, seconds: f64) -> Instant {
        start + Duration::from_secs_f64(seconds)
    }

    /// Seconds after the window's beginning at which events are due, up to `until`.
    fn dues(plan: Plan, until: f64) -> Vec<f64> {
        let start = Instant::now();
        let mut schedule = Schedule::new(plan, Random::new(7), start);
        schedule.open_window(start);
        let end = after(start, until);
        std::iter::from_fn(|| match schedule.take(end) {
            Take::Due(at) => Some((at - start).as_secs_f64()),
            _ => None,
        })
        .collect()
    }

    fn count(dues: &[f64], from: f64, to: f64) -> usize {
        dues.iter().filter(|&&at| at >= from && at < to).count()
    }

    #[test]
    fn a_constant_rate_is_due_at_even_distances() {
        let dues = dues(plan(500.0, "", "constant"), 1.9999);
        assert_eq!(dues.len(), 1000);
        for (number, at) in dues.iter().enumerate() {
            assert!((at - number as f64 / 500.0).abs() < 1e-6, "{number}: {at}");
        }
    }

    #[test]
    fn nothing_is_due_in_a_pause_and_nothing_is_overdue_after_it() {
        let start = Instant::now();
        let mut schedule = Schedule::new(plan(10.0, "", "constant"), Random::new(7), start);
        schedule.open_window(start);
        assert_eq!(schedule.take(start), Take::Due(start));
        schedule.shift(Duration::from_secs(60));
        let resumed = after(start, 60.05);
        assert_eq!(schedule.take(resumed), Take::Later(after(start, 60.1)));
        assert_eq!(schedule.close_window(resumed).backlog_end, 0);
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_independent_gaps() {
        let dues = dues(plan(1000.0, "", "poisson"), 100.0);
        assert!(
            (dues.len() as f64 / 100_000.0 - 1.0).abs() < 0.015,
            "{}",
            dues.len()
        );
        let gaps: Vec<f64> = dues.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!(
            (variance.sqrt() / mean - 1.0).abs() < 0.03,
            "an exponential's deviation is its mean"
        );
        let long = gaps.iter().filter(|&&gap| gap > 0.003).count() as f64 / gaps.len() as f64;
        assert!((long - (-3.0f64).exp()).abs() < 0.005, "{long}");
    }

    #[test]
    fn a_ramp_rises_evenly_and_then_holds() {
        let dues = dues(plan(0.0, "ramp:0-1000/10s", "constant"), 12.0);
        assert!(count(&dues, 0.0, 5.0).abs_diff(1250) <= 1);
        assert!(count(&dues, 5.0, 10.0).abs_diff(3750) <= 1);
        assert!(count(&dues, 10.0, 12.0).abs_diff(2000) <= 1);
        assert!(dues.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    #[test]
    fn a_ramp_down_to_nothing_ends() {
        let start = Instant::now();
        let mut schedule = Schedule::new(plan(0.0, "ramp:100-0/2s", "constant"), Random::new(7), start);
        schedule.open_window(start);
        let end = after(start, 5.0);
        let taken = std::iter::from_fn(|| matches!(schedule.take(end), Take::Due(_)).then_some(())).count();
        assert_eq!((taken, schedule.take(end)), (100, Take::Over));
        assert_eq!(schedule.close_window(end).backlog_end, 0);
    }

    #[test]
    fn steps_follow_each_other_and_the_last_holds() {
        let dues = dues(plan(0.0, "step:100,300,200/1s", "constant"), 5.0);
        let counts = [0, 1, 2, 3, 4].map(|second| count(&dues, f64::from(second), f64::from(second + 1)));
        for (count, due) in counts.into_iter().zip([100, 300, 200, 200, 200]) {
            assert!(usize::abs_diff(count, due) <= 1, "{counts:?}");
        }
    }

    #[test]
    fn bursts_come_at_the_end_of_each_period() {
        let dues = dues(plan(0.0, "burst:0-1000/0.5s/2s", "constant"), 4.0);
        assert_eq!((count(&dues, 0.0, 1.4999), count(&dues, 2.01, 3.4999)), (0, 0));
        assert!(count(&dues, 1.4999, 2.01).abs_diff(500) <= 1);
    }

    #[test]
    fn a_profile_begins_with_the_window() {
        let start = Instant::now();
        let mut schedule = Schedule::new(plan(0.0, "step:10,1000/1s", "constant"), Random::new(7), start);
        let warm = after(start, 5.0);
        let taken = std::iter::from_fn(|| matches!(schedule.take(warm), Take::Due(_)).then_some(())).count();
        assert!(taken.abs_diff(50) <= 1, "the first rate holds before: {taken}");
        schedule.open_window(warm);
        let offered = schedule.close_window(after(warm, 2.0));
        assert!(offered.due.abs_diff(1010) <= 1, "{offered:?}");
    }

    #[test]
    fn backlog_is_what_is_due_and_not_begun() {
        for kind in ["constant", "poisson"] {
            let start = Instant::now();
            let mut schedule = Schedule::new(plan(1000.0, "", kind), Random::new(7), start);
            schedule.open_window(start);
            let late = after(start, 1.0);
            for _ in 0..900 {
                assert!(matches!(schedule.take(late), Take::Due(_)));
            }
            let offered = schedule.close_window(late);
            assert_eq!(offered.backlog_end, offered.due - 900);
            assert!((900..1100).contains(&offered.backlog_most), "{offered:?}");
        }
    }

    #[test]
    fn a_rate_of_rows_is_divided_by_the_rows_of_an_event() {
        let plan = Plan::parse(1000.0, "", "constant", 10).unwrap().unwrap();
        assert_eq!(dues(plan, 0.9999).len(), 100);
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_the_ways_to_say_it() {
        let refused = |rate, profile, kind| Plan::parse(rate, profile, kind, 1).unwrap_err().message;
        assert!(refused(-1.0, "", "constant").contains("rate is -1"));
        assert!(refused(1e300, "", "constant").contains("10000000"));
        assert!(refused(f64::NAN, "", "constant").contains("NaN"));
        assert!(refused(5.0, "ramp:1-2/3s", "constant").contains("exclude"));
        assert!(refused(5.0, "", "even").contains("\"even\" is not known"));
        assert!(refused(0.0, "", "poisson").contains("no rate"));
        for text in [
            "ramp",
            "ramp:5/3s",
            "ramp:1-2",
            "saw:1-2/3s",
            "burst:1-2/3s",
            "burst:1-2/3s/2s",
        ] {
            assert!(refused(0.0, text, "constant").contains("is not known"), "{text}");
        }
        assert!(refused(0.0, "ramp:x-2/3s", "constant").contains("\"x\" is no rate"));
        assert!(refused(0.0, "ramp:1-2/3", "constant").contains("\"3\" is no time"));
        assert!(refused(0.0, "ramp:1-2/0s", "constant").contains("no time"));
        assert!(refused(0.0, "step:0,0/1s", "constant").contains("no rate above 0"));
        assert_eq!(Plan::parse(0.0, "", "constant", 1).unwrap(), None);
    }
}
