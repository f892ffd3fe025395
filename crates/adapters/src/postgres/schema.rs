//! The statements, with the deployment's schema put into their text.

use crate::LogError;

/// A schema's name as it goes into SQL: only such that need no quoting, so none can escape.
pub(super) fn checked(schema: &str) -> Result<&str, LogError> {
    let fits = (1..=48).contains(&schema.len())
        && schema.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !schema.starts_with(|c: char| c.is_ascii_digit())
        && !schema.starts_with("pg_");
    if fits { Ok(schema) } else { Err(LogError::Unfit(format!("schema name {schema:?}: 1 to 48 lower case letters, digits and '_', not 'pg_…'"))) }
}

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// One field a file in `queries/`.
        pub(super) struct Sql { name: String, schema: String, $(pub(super) $name: String),* }

        impl Sql {
            pub(super) fn new(schema: &str) -> Result<Self, LogError> {
                // Quoted, for names that are words of SQL.
                let quoted = format!("\"{}\"", checked(schema)?);
                Ok(Self {
                    $($name: include_str!(concat!("queries/", stringify!($name), ".sql")).replace("{schema}", &quoted),)*
                    schema: quoted,
                    name: schema.to_owned(),
                })
            }
        }
    };
}
statements!(
    append,
    attachments,
    ended,
    erasures,
    events,
    fit,
    forget,
    frames,
    health,
    job,
    jobs,
    ready,
    runs,
    secret,
    sessions,
    stats,
    tail,
    tip,
    unended
);

impl Sql {
    /// The schema's name, for people.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The text that calls a function with that many arguments.
    pub(super) fn function(&self, name: &str, arguments: usize) -> String {
        let places = (1..=arguments).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ");
        format!("select * from {}.{name}({places})", self.schema)
    }
}
