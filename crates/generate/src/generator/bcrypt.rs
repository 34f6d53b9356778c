//! Hashes of passwords. One takes milliseconds to seconds by design; rows are made in parallel.

use std::sync::Arc;

use flushlab_rows::Bits;
use parking_lot::Mutex;

use crate::draw::{mixed, Draw};
use crate::Error;

/// What bcrypt reads of a password: its own end, a zero byte, counts as one of 72.
const LONGEST: usize = 71;

#[derive(Debug)]
pub(crate) enum Bcrypt {
    /// The same in every row.
    SharedHashes(Arc<[u8]>),
    /// Each row has a salt of its own.
    Distinct { password: Box<[u8]>, cost: u32 },
}

impl Bcrypt {
    pub fn new(password: &str, cost: u32, distinct: bool, key: u64) -> Result<Self, Error> {
        if !(4..=31).contains(&cost) {
            return Err(Error::new(format!("cost is {cost}; it takes 4 to 31")));
        }
        if password.len() > LONGEST || password.contains('\0') {
            return Err(Error::new(format!(
                "bcrypt takes passwords of at most {LONGEST} bytes, without zeros"
            )));
        }
        let password = password.as_bytes();
        if distinct {
            let password = password.into();
            return Ok(Self::Distinct { password, cost });
        }
        Ok(Self::SharedHashes(shared_hash(password, cost, key)))
    }

    #[inline]
    pub fn put(&self, draw: &mut Draw, out: &mut Vec<u8>) {
        match self {
            Self::SharedHashes(hash) => out.extend_from_slice(hash),
            Self::Distinct { password, cost } => put_hash(out, password, *cost, draw.bits(), draw.bits()),
        }
    }
}

struct SharedHashes {
    password: Box<[u8]>,
    cost: u32,
    key: u64,
    hash: Arc<[u8]>,
}

/// What this process has computed last: a plan is read for each of its checks, loads and samples.
static COMPUTED: Mutex<Vec<SharedHashes>> = Mutex::new(Vec::new());
const KEPT: usize = 16;

fn shared_hash(password: &[u8], cost: u32, key: u64) -> Arc<[u8]> {
    let mut computed = COMPUTED.lock();
    let found = computed
        .iter()
        .find(|one| (&*one.password, one.cost, one.key) == (password, cost, key));
    if let Some(one) = found {
        return one.hash.clone();
    }
    let mut out = Vec::new();
    put_hash(&mut out, password, cost, mixed(key), mixed(!key));
    let hash: Arc<[u8]> = out.into();
    if computed.len() == KEPT {
        computed.remove(0);
    }
    computed.push(SharedHashes {
        password: password.into(),
        cost,
        key,
        hash: hash.clone(),
    });
    hash
}

fn put_hash(out: &mut Vec<u8>, password: &[u8], cost: u32, salt_high: u64, salt_low: u64) {
    let mut salt = [0; 16];
    salt[..8].copy_from_slice(&salt_high.to_be_bytes());
    salt[8..].copy_from_slice(&salt_low.to_be_bytes());
    let hash = bcrypt::hash_with_salt(password, cost, salt).expect("the cost and the length were checked");
    out.extend_from_slice(hash.format_for_version(bcrypt::Version::TwoB).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_of_its_password_and_distinct_ones_differ() {
        let hash = |bcrypt: &Bcrypt, row| {
            let mut out = Vec::new();
            bcrypt.put(&mut Draw::new(1, row), &mut out);
            String::from_utf8(out).unwrap()
        };
        let shared = Bcrypt::new("secret", 4, false, 7).unwrap();
        let distinct = Bcrypt::new("secret", 4, true, 7).unwrap();
        assert_eq!(hash(&shared, 0), hash(&shared, 1));
        assert_ne!(hash(&distinct, 0), hash(&distinct, 1));
        assert_eq!(hash(&distinct, 1), hash(&distinct, 1));
        for hash in [hash(&shared, 0), hash(&distinct, 0)] {
            assert!(hash.len() == 60 && hash.starts_with("$2b$04$"), "{hash}");
            assert!(bcrypt::verify("secret", &hash).unwrap());
            assert!(!bcrypt::verify("secreT", &hash).unwrap());
        }
    }

    #[test]
    fn a_shared_hash_is_that_of_its_own_password_cost_and_key_however_often_it_is_asked_for() {
        let shared = |password, cost, key| {
            let mut out = Vec::new();
            let bcrypt = Bcrypt::new(password, cost, false, key).unwrap();
            bcrypt.put(&mut Draw::new(1, 0), &mut out);
            out
        };
        let asked: Vec<_> = (0..2 * KEPT as u64)
            .flat_map(|key| [("secret", 4, key), ("secret", 5, key), ("other", 4, key)])
            .collect();
        let first: Vec<_> = asked.iter().map(|&(p, c, k)| shared(p, c, k)).collect();
        let distinct: std::collections::HashSet<_> = first.iter().collect();
        assert_eq!(distinct.len(), asked.len());
        let again: Vec<_> = asked.iter().map(|&(p, c, k)| shared(p, c, k)).collect();
        assert_eq!(first, again);
        assert!(COMPUTED.lock().len() <= KEPT);
    }

    #[test]
    fn what_bcrypt_would_cut_off_is_refused() {
        assert!(Bcrypt::new(&"x".repeat(72), 4, false, 1).is_err());
        assert!(Bcrypt::new("x", 3, false, 1).is_err() && Bcrypt::new("x", 32, false, 1).is_err());
    }
}
