//! The files that are checked, and what is said about them.

use std::fmt;
use std::fs;
use std::path::Path;

/// One text file.
pub(crate) struct File {
    /// Relative to the workspace's root.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All of them.
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

/// What is wrong in one place, and what to do instead.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Complaint {
    path: String,
    line: usize,
    what: String,
}

impl Complaint {
    /// `line` counts from 1.
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

impl Tree {
    /// The workspace that this test belongs to.
    pub(crate) fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut tree = Self { files: Vec::new() };
        tree.read_dir(&root, "");
        assert!(
            tree.files.len() > 20,
            "the workspace was not found at {}",
            root.display()
        );
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        tree
    }

    /// For planted violations.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).into(),
            text: (*text).into(),
        };
        Self {
            files: files.iter().map(file).collect(),
        }
    }

    fn read_dir(&mut self, dir: &Path, prefix: &str) {
        for entry in fs::read_dir(dir).expect("a readable directory") {
            let entry = entry.expect("a readable directory");
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if matches!(name.as_str(), ".git" | "target") {
                continue;
            }
            if entry.file_type().expect("a file type").is_dir() {
                self.read_dir(&entry.path(), &format!("{path}/"));
            } else {
                // What is not UTF-8 is data: it is there, and has no text.
                let text = fs::read_to_string(entry.path()).unwrap_or_default();
                self.files.push(File { path, text });
            }
        }
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        let file = self.files.iter().find(|file| file.path == path)?;
        Some(&file.text)
    }

    /// The files below `dir` whose names end with `ending`.
    pub(crate) fn under<'t>(
        &'t self,
        dir: &'t str,
        ending: &'t str,
    ) -> impl Iterator<Item = &'t File> {
        self.files
            .iter()
            .filter(move |file| file.path.starts_with(dir) && file.path.ends_with(ending))
    }
}
