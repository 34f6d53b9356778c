//! The modules of this crate use each other without circles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Modules and what they use, down to items; `drive::polling` uses `crate::session::Session`.
type Graph = BTreeMap<String, BTreeSet<String>>;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The code alone: without comments, and with nothing in its strings and characters.
fn code(source: &str) -> String {
    let (mut code, mut rest) = (String::new(), source);
    let quoted_end = |text: &str| {
        let mut escaped = false;
        let end = text.char_indices().find(|&(_, char)| {
            let ends = char == '"' && !escaped;
            escaped = char == '\\' && !escaped;
            ends
        });
        end.map_or(text.len(), |(at, _)| at + 1)
    };
    while let Some(char) = rest.chars().next() {
        let raw = rest.strip_prefix('r').map(|text| text.trim_start_matches('#'));
        let is_raw = raw.is_some_and(|text| text.starts_with('"'))
            && !code.ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let passed = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if is_raw {
            let hashes = rest[1..].len() - raw.unwrap().len();
            let end = format!("\"{}", "#".repeat(hashes));
            let begin = 1 + hashes + 1;
            rest[begin..]
                .find(&end)
                .map_or(rest.len(), |at| begin + at + end.len())
        } else if char == '"' {
            1 + quoted_end(&rest[1..])
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            rest[1..].find('\'').unwrap() + 2
        } else {
            code.push(char);
            char.len_utf8()
        };
        rest = &rest[passed..];
    }
    code
}

/// Without the items behind `#[cfg(test)]`.
fn without_tests(code: &str) -> String {
    let mut kept = String::new();
    let mut rest = code;
    while let Some((before, item)) = rest.split_once("#[cfg(test)]") {
        kept.push_str(before);
        let mut depth = 0;
        let end = item.char_indices().find(|&(_, char)| {
            depth += i32::from(char == '{') - i32::from(char == '}');
            depth == 0 && matches!(char, '}' | ';')
        });
        rest = &item[end.map_or(item.len(), |(at, _)| at + 1)..];
    }
    kept + rest
}

/// The paths of a tree behind `use`.
fn resolved(tree: &str) -> Vec<String> {
    let Some((head, items)) = tree.split_once('{') else {
        return vec![tree.to_owned()];
    };
    let items = &items[..items.rfind('}').unwrap()];
    let mut depth = 0;
    let items = items.split(|char| {
        depth += i32::from(char == '{') - i32::from(char == '}');
        depth == 0 && char == ','
    });
    items
        .filter(|item| !item.is_empty())
        .flat_map(|item| resolved(&format!("{head}{item}")))
        .collect()
}

/// The paths behind `use`, and those that begin with `crate`, `self` or `super` wherever they stand.
fn used(source: &str) -> Vec<String> {
    let code = without_tests(&code(source));
    let is_word = |char: char| char.is_alphanumeric() || char == '_';
    let mut paths = Vec::new();
    let mut rest = &code[..];
    let mut before = ' ';
    while let Some(char) = rest.chars().next() {
        let word = rest.find(|char| !is_word(char)).unwrap_or(rest.len());
        if word == 0 || is_word(before) {
            (before, rest) = (char, &rest[char.len_utf8()..]);
            continue;
        }
        let end = match &rest[..word] {
            "use" => {
                let end = rest.find(';').unwrap_or(rest.len());
                let tree: String = rest[word..end].split_whitespace().collect();
                paths.extend(resolved(&tree));
                end
            }
            "crate" | "self" | "super" if before != ':' => {
                let path = rest
                    .find(|char| !is_word(char) && char != ':')
                    .unwrap_or(rest.len());
                paths.extend(rest[..path].contains("::").then(|| rest[..path].to_owned())); // else pub(crate)
                path
            }
            _ => word,
        };
        (before, rest) = ('x', &rest[end..]);
        if rest.starts_with(|char| !is_word(char)) {
            before = ' ';
        }
    }
    paths
}

/// The module that a path in `from` leads to, if it is one of this crate's.
fn target(modules: &BTreeSet<String>, from: &str, path: &str) -> Option<String> {
    let mut base: Vec<&str> = from.split("::").collect();
    let mut words = path.split("::").peekable();
    match words.peek() {
        Some(&"crate") => {
            words.next();
            base.clear();
        }
        Some(&"self") => drop(words.next()),
        _ => {}
    }
    while words.next_if_eq(&"super").is_some() {
        base.pop();
    }
    base.extend(words);
    while !modules.contains(&base.join("::")) {
        base.pop()?;
    }
    let found = base.join("::");
    // A module declares what is inside it.
    (found != from && !from.is_empty() && !found.is_empty()).then_some(found)
}

fn graph() -> Graph {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let name = |file: &Path| {
        let path = file.strip_prefix(&root).unwrap().with_extension("");
        let path = path.to_str().unwrap().replace('/', "::");
        path.trim_end_matches("::mod").to_owned()
    };
    // lib.rs names everything for the outside; what it exports is imported from it by many.
    files.retain(|file| !file.ends_with("src/lib.rs"));
    let modules: BTreeSet<_> = files.iter().map(|file| name(file)).collect();
    let edges = |file: &PathBuf| {
        let (from, source) = (name(file), std::fs::read_to_string(file).unwrap());
        let to = used(&source)
            .into_iter()
            .filter_map(|path| target(&modules, &from, &path));
        // What a folder's module passes on is inside it.
        let to = to.filter(|to| !to.starts_with(&format!("{from}::")));
        (from.clone(), to.collect())
    };
    files.iter().map(edges).collect()
}

/// A circle that begins and ends at the same module.
fn circle(graph: &Graph) -> Option<Vec<String>> {
    fn visit<'a>(
        graph: &'a Graph,
        at: &'a str,
        path: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> bool {
        if done.contains(at) {
            return false;
        }
        path.push(at);
        if path[..path.len() - 1].contains(&at) {
            return true;
        }
        if graph[at].iter().any(|next| visit(graph, next, path, done)) {
            return true;
        }
        path.pop();
        done.insert(at);
        false
    }
    let mut done = BTreeSet::new();
    graph.keys().find_map(|module| {
        let mut path = Vec::new();
        visit(graph, module, &mut path, &mut done).then(|| path.into_iter().map(str::to_owned).collect())
    })
}

#[test]
fn no_modules_use_each_other_in_a_circle() {
    let graph = graph();
    assert_eq!(circle(&graph), None);
    // What is read is really there.
    assert!(graph["run"].contains("session") && graph["drive::polling"].contains("session"));
    assert!(graph["workload::oltp"].contains("workload::event"), "{graph:?}");
}

#[test]
fn a_circle_is_found() {
    let edges = [
        ("a", vec!["b"]),
        ("b", vec!["c"]),
        ("c", vec!["b"]),
        ("d", vec![]),
    ];
    let mut graph: Graph = edges
        .into_iter()
        .map(|(from, to)| (from.to_owned(), to.into_iter().map(str::to_owned).collect()))
        .collect();
    assert!(circle(&graph)
        .unwrap()
        .ends_with(&["b".to_owned(), "c".to_owned(), "b".to_owned()]));
    graph.get_mut("c").unwrap().clear();
    assert_eq!(circle(&graph), None);
}

#[test]
fn every_form_of_a_use_is_seen_and_tests_are_not() {
    let source = r##"
        //! use crate::comment::One;
        use crate::{one::{Two, three::Three}, four};
        pub(crate) use super::five::Five;
        #[cfg(test)]
        use crate::no::Six;
        #[cfg(test)]
        mod tests { use crate::no::Seven; fn f() { crate::no::eight() } }
        fn g() -> crate::nine::Ten { "use crate::no::Text;"; r#"crate::no"#; super::super::eleven::twelve() }
    "##;
    assert_eq!(
        used(source),
        [
            "crate::one::Two",
            "crate::one::three::Three",
            "crate::four",
            "super::five::Five",
            "crate::nine::Ten",
            "super::super::eleven::twelve",
        ]
    );
    let modules = ["one", "one::three", "folder::five", "eleven"];
    let modules = modules.into_iter().map(str::to_owned).collect();
    let target = |path| target(&modules, "folder::it", path);
    assert_eq!(target("crate::one::Two"), Some("one".to_owned()));
    assert_eq!(target("crate::one::three::Three"), Some("one::three".to_owned()));
    assert_eq!(target("super::five::Five"), Some("folder::five".to_owned()));
    assert_eq!(target("super::super::eleven::twelve"), Some("eleven".to_owned()));
    assert_eq!(target("std::io"), None);
}
