//! Commands of the servers' own command-line client: lines that it carries out itself and never sends.

use crate::Error;

/// What a command comes to when a script is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// In its short form; the long one is obeyed in every script ([`crate::script::split`]).
    Delimiter,
    /// Reads another file.
    Source,
    /// A statement that needs no delimiter.
    Use,
    /// The end of its file.
    Quit,
    /// Shows something or writes it down: nothing for the server.
    Nothing {
        arguments: bool,
    },
    Refused(&'static Refusal),
}

/// Why a load does not take a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    why: &'static str,
    way_out: &'static str,
}

impl Refusal {
    pub fn error(&self, line: u32, command: &[u8]) -> Error {
        let command = String::from_utf8_lossy(command);
        Error::usage(format!(
            "line {line}: the client's command {command} {}",
            self.why
        ))
        .hint(self.way_out)
    }
}

const SHELL: Refusal = Refusal {
    why: "runs a program of the shell",
    way_out: "flushlab runs no program from a dump: remove the line",
};
const EDITOR: Refusal = Refusal {
    why: "opens an editor",
    way_out: "remove the line",
};
const CONNECT: Refusal = Refusal {
    why: "connects to another server",
    way_out: "a dump is loaded into one server: remove the line",
};
const RESET: Refusal = Refusal {
    why: "resets the session",
    way_out: "flushlab keeps one session for a file: remove the line",
};
const CHARSET: Refusal = Refusal {
    why: "changes the character set",
    way_out: "write SET NAMES in its place",
};
const USE: Refusal = Refusal {
    why: "changes the database",
    way_out: "write USE in its place",
};

/// The words of mysql 9 and mariadb 11 (client/mysql.cc), with their short forms.
const COMMANDS: [(&str, &str, Command); 31] = [
    ("", "\\d", Command::Delimiter),
    ("source", "\\.", Command::Source),
    ("use", "", Command::Use),
    ("", "\\u", Command::Refused(&USE)),
    ("exit", "\\q", Command::Quit),
    ("quit", "", Command::Quit),
    ("system", "\\!", Command::Refused(&SHELL)),
    ("edit", "\\e", Command::Refused(&EDITOR)),
    ("connect", "\\r", Command::Refused(&CONNECT)),
    ("resetconnection", "\\x", Command::Refused(&RESET)),
    ("charset", "\\C", Command::Refused(&CHARSET)),
    ("tee", "\\T", Command::Nothing { arguments: true }),
    ("pager", "\\P", Command::Nothing { arguments: true }),
    ("prompt", "\\R", Command::Nothing { arguments: true }),
    ("query_attributes", "", Command::Nothing { arguments: true }),
    ("ssl_session_data_print", "", Command::Nothing { arguments: true }),
    ("notee", "\\t", Command::Nothing { arguments: false }),
    ("nopager", "\\n", Command::Nothing { arguments: false }),
    ("print", "\\p", Command::Nothing { arguments: false }),
    ("rehash", "\\#", Command::Nothing { arguments: false }),
    ("status", "\\s", Command::Nothing { arguments: false }),
    ("warnings", "\\W", Command::Nothing { arguments: false }),
    ("nowarning", "\\w", Command::Nothing { arguments: false }),
    ("nowarnings", "", Command::Nothing { arguments: false }),
    ("clear", "\\c", Command::Nothing { arguments: false }),
    ("go", "\\g", Command::Nothing { arguments: false }),
    ("ego", "\\G", Command::Nothing { arguments: false }),
    ("help", "\\h", Command::Nothing { arguments: true }),
    ("", "\\?", Command::Nothing { arguments: false }),
    ("sandbox", "\\-", Command::Nothing { arguments: false }),
    ("costs", "", Command::Nothing { arguments: false }),
];

/// The longest word.
const LONGEST: usize = 22;

/// What may be a command's word at the beginning of a text: letters, or a backslash and what stands behind it.
pub(crate) fn word(text: &[u8]) -> &[u8] {
    let length = match text.first() {
        Some(b'\\') => text.len().min(2),
        _ => {
            let letters = text.iter().take(LONGEST + 1);
            let within = |byte: &&u8| byte.is_ascii_alphabetic() || **byte == b'_';
            letters.take_while(within).count()
        }
    };
    &text[..length]
}

/// The command that goes by a word.
pub(crate) fn command(word: &[u8]) -> Option<Command> {
    let short = word.first() == Some(&b'\\');
    let found = COMMANDS.iter().find(|(long, brief, _)| match short {
        true => word == brief.as_bytes(),
        false => !word.is_empty() && word.eq_ignore_ascii_case(long.as_bytes()),
    });
    found.map(|(_, _, command)| *command)
}
