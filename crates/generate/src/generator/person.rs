//! Names and addresses of several countries, from short lists of names, towns and streets that are common there. The
//! lists are this project's own: `locales.json`.

use std::sync::LazyLock;

use serde::Deserialize;

/// What a country's people and places are called.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Locale {
    pub name: String,
    first: Vec<String>,
    last: Vec<String>,
    /// In ASCII, for e-mail addresses; empty where the above become it by leaving out accents.
    #[serde(default)]
    ascii_first: Vec<String>,
    #[serde(default)]
    ascii_last: Vec<String>,
    cities: Vec<String>,
    streets: Vec<String>,
    /// Templates: `<first>` and the like are lists, the rest is as in patterns.
    full_name: String,
    street: String,
    postcode: String,
    address: String,
    phone: String,
}

pub(crate) static LOCALES: LazyLock<Vec<Locale>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("locales.json")).expect("the file is read by this crate's tests")
});

impl Locale {
    /// The template of what a generator gives.
    pub fn template(&self, what: What) -> &str {
        match what {
            What::FirstName => "<first>",
            What::LastName => "<last>",
            What::Name => &self.full_name,
            What::Email => "<ascii_first>.<ascii_last>{n}@<domain>",
            What::Street => &self.street,
            What::City => "<city>",
            What::Postcode => &self.postcode,
            What::Address => &self.address,
            What::Phone => &self.phone,
        }
    }

    /// A list by its name in templates.
    pub fn list(&self, name: &str) -> Vec<Box<[u8]>> {
        let ascii = |list: &[String], otherwise: &[String]| {
            let list = if list.is_empty() { otherwise } else { list };
            list.iter().map(|name| without_accents(name)).collect()
        };
        let as_is = |list: &[String]| list.iter().map(|text| text.as_bytes().into()).collect();
        match name {
            "first" => as_is(&self.first),
            "last" => as_is(&self.last),
            "ascii_first" => ascii(&self.ascii_first, &self.first),
            "ascii_last" => ascii(&self.ascii_last, &self.last),
            "city" => as_is(&self.cities),
            "street" => as_is(&self.streets),
            // Nobody gets mail there (RFC 2606).
            _ => ["example.com", "example.org", "example.net"]
                .map(|text| text.as_bytes().into())
                .into(),
        }
    }
}

/// What of a person is generated.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    FirstName,
    LastName,
    Name,
    Email,
    Street,
    City,
    Postcode,
    Address,
    Phone,
}

/// A name as it stands in an e-mail address.
fn without_accents(name: &str) -> Box<[u8]> {
    let mut ascii = String::new();
    for letter in name.chars().flat_map(char::to_lowercase) {
        match letter {
            'a'..='z' => ascii.push(letter),
            'ä' => ascii.push_str("ae"),
            'ö' => ascii.push_str("oe"),
            'ü' => ascii.push_str("ue"),
            'ß' => ascii.push_str("ss"),
            'á' | 'à' | 'â' => ascii.push('a'),
            'é' | 'è' | 'ê' | 'ë' => ascii.push('e'),
            'í' | 'ì' | 'î' | 'ï' => ascii.push('i'),
            'ó' | 'ô' => ascii.push('o'),
            'ú' | 'ù' | 'û' => ascii.push('u'),
            'ç' => ascii.push('c'),
            'ñ' => ascii.push('n'),
            _ => {}
        }
    }
    ascii.into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e_mail_addresses_are_ascii_in_every_locale() {
        for locale in &*LOCALES {
            for name in locale
                .list("ascii_first")
                .iter()
                .chain(&locale.list("ascii_last"))
            {
                assert!(
                    !name.is_empty() && name.iter().all(u8::is_ascii_lowercase),
                    "{}",
                    locale.name
                );
            }
        }
        assert_eq!(&*without_accents("Weiß"), b"weiss");
        assert_eq!(&*without_accents("O'Brien"), b"obrien");
    }
}
