//! The modules of this crate import each other without circles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Modules and what they import, down to items; `drive::polling` imports `crate::session::Session`.
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

/// The paths behind `use`, tests left out, with braces resolved.
fn imports(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap();
    let statements = source.split(';').filter_map(|statement| {
        let line = statement.lines().rev().find(|line| line.contains("use "))?;
        let code = line.trim_start();
        (code.starts_with("use ") || code.starts_with("pub")).then(|| {
            let from = statement.rfind(code).unwrap();
            statement[from..]
                .split_once("use ")
                .unwrap()
                .1
                .split_whitespace()
                .collect::<String>()
        })
    });
    statements
        .flat_map(|path| match path.split_once('{') {
            None => vec![path],
            Some((head, items)) => items
                .trim_end_matches('}')
                .split(',')
                .map(|item| format!("{head}{item}"))
                .collect(),
        })
        .collect()
}

/// The module that an import of `from` leads to, if it is one of this crate's.
fn target(modules: &BTreeSet<String>, from: &str, path: &str) -> Option<String> {
    let parent = from.rsplit_once("::").map_or("", |(parent, _)| parent);
    let mut path = match path.split_once("::")? {
        ("crate", rest) => rest.to_owned(),
        ("super", rest) if parent.is_empty() => rest.to_owned(),
        ("super", rest) => format!("{parent}::{rest}"),
        ("self", rest) => format!("{from}::{rest}"),
        _ => format!("{from}::{path}"),
    };
    while !modules.contains(&path) {
        path.truncate(path.rfind("::")?);
    }
    (path != from).then_some(path)
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
        let to = imports(&source)
            .into_iter()
            .filter_map(|path| target(&modules, &from, &path));
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
fn no_modules_import_each_other_in_a_circle() {
    let graph = graph();
    assert_eq!(circle(&graph), None);
    // What is read is really there.
    assert!(graph["run"].contains("session") && graph["drive::polling"].contains("session"));
    assert!(graph["workload::oltp"].contains("workload::event"), "{graph:?}");
}
