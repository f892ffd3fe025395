//! The outermost object of a JSON body, as a list: a field given twice is seen twice, as in the other encodings, and not the last of them taken silently.
//! Its values stay text until their length is known: a `Value` is many times as large as what it was read from.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::body::PARTS_LIMIT;

#[derive(Debug)]
pub(super) enum Object<'a> {
    Fields(Vec<(String, &'a RawValue)>),
    TooMany,
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Object<'de>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let mut fields = Vec::new();
        while let Some(name) = map.next_key()? {
            if fields.len() == PARTS_LIMIT {
                // To the end all the same, so that what is no JSON is said to be none.
                map.next_value::<IgnoredAny>()?;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                return Ok(Object::TooMany);
            }
            fields.push((name, map.next_value()?));
        }
        Ok(Object::Fields(fields))
    }
}
