//! Enums of the log that can grow: the variant's name is read first, so that a new name is not taken for damage.
//!
//! A known name is read strictly. An unknown name is kept inside an event, and refused everywhere else (a
//! configuration, a script), where it is a typing error.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use serde::de::value::{Error as Misnamed, StrDeserializer};
use serde::de::{self, Deserialize, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// A variant without data that this program does not know: its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(u16);

/// The names that were met, each once. A log with more of them than this is no log; the rest share one name.
static WORDS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
const MAX_WORDS: usize = 4096;

impl Word {
    /// The name as it came.
    pub fn text(self) -> &'static str {
        let words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
        words.get(usize::from(self.0)).copied().unwrap_or("…")
    }
}

/// A variant with data that this program does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign(Box<(String, Value)>);

impl Foreign {
    /// The variant's name as it came.
    pub fn name(&self) -> &str {
        &self.0.0
    }

    /// Its data as it came; null where it had none.
    pub fn raw(&self) -> &Value {
        &self.0.1
    }
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl Serialize for Foreign {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.raw().is_null() {
            return serializer.serialize_str(self.name());
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.name(), self.raw())?;
        map.end()
    }
}

/// How an enum keeps a variant it does not know.
pub trait Unread: Sized {
    /// From its name alone.
    fn bare(name: &str) -> Self;

    /// From its name, the data still to be read.
    fn with_data<'de, M: MapAccess<'de>>(name: &str, map: &mut M) -> Result<Self, M::Error>;
}

impl Unread for Word {
    fn bare(name: &str) -> Self {
        let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
        let at = words.iter().position(|known| *known == name).unwrap_or(words.len());
        if at == words.len() && at < MAX_WORDS {
            words.push(Box::leak(name.into()));
        }
        Word(u16::try_from(at).unwrap_or(u16::MAX))
    }

    fn with_data<'de, M: MapAccess<'de>>(name: &str, map: &mut M) -> Result<Self, M::Error> {
        map.next_value::<IgnoredAny>().map(|_| Word::bare(name))
    }
}

impl Unread for Foreign {
    fn bare(name: &str) -> Self {
        Foreign(Box::new((name.to_owned(), Value::Null)))
    }

    fn with_data<'de, M: MapAccess<'de>>(name: &str, map: &mut M) -> Result<Self, M::Error> {
        Ok(Foreign(Box::new((name.to_owned(), map.next_value()?))))
    }
}

thread_local! {
    /// What was met on this thread and is not known, while names that are not known are kept.
    static MET: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// While it lives, names that are not known are kept on this thread.
pub(super) struct Keeping {
    is_outermost: bool,
}

impl Keeping {
    /// Begins to keep, unless it is done already.
    pub fn begin() -> Self {
        let is_outermost = MET.with_borrow_mut(|met| match met {
            Some(_) => false,
            None => met.replace(Vec::new()).is_none(),
        });
        Keeping { is_outermost }
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        if self.is_outermost {
            MET.set(None);
        }
    }
}

/// Notes something that is not known.
pub(super) fn met(what: String) {
    MET.with_borrow_mut(|met| met.as_mut().map(|met| met.push(what)));
}

/// Reads JSON and names everything in it that this program does not know: fields by their path, variants by their enum.
pub(super) fn read<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<(T, Vec<String>)> {
    let _keeping = Keeping::begin();
    let mut text = serde_json::Deserializer::from_slice(json);
    let mut fields = Vec::new();
    // Behind a pointer it is one type for all `T`: what reads the structs of the log is compiled once.
    let keep: &mut dyn FnMut(serde_ignored::Path<'_>) = &mut |path| fields.push(format!("field `{path}`"));
    let value = serde_ignored::deserialize(&mut text, keep)?;
    text.end()?;
    let variants = MET.with_borrow_mut(|met| met.as_mut().map(std::mem::take)).unwrap_or_default();
    Ok((value, variants.into_iter().chain(fields).collect()))
}

/// An enum of the log; the macro `stored!` implements it.
pub trait Stored: Sized {
    /// The type's name.
    const NAME: &'static str;

    /// The variant of this name, which has no data.
    fn bare<E: de::Error>(name: &str) -> Result<Self, E>;

    /// The variant whose name is the next key, with its data.
    fn with_data<'de, M: MapAccess<'de>>(name: &str, map: &mut M) -> Result<Self, M::Error>;
}

/// What a name means: a variant, or nothing this program knows.
pub(super) fn tag<'de, T, E>(owner: &str, name: &'de str) -> Result<Option<T>, E>
where
    T: Deserialize<'de>,
    E: de::Error,
{
    let error = match T::deserialize(StrDeserializer::<Misnamed>::new(name)) {
        Ok(tag) => return Ok(Some(tag)),
        Err(error) => error,
    };
    kept(owner, name).map(|()| None).map_err(|_: Misnamed| E::custom(error))
}

/// Keeps a name that is not known, where such names are kept.
pub(super) fn kept<E: de::Error>(owner: &str, name: &str) -> Result<(), E> {
    // serde_json's own name for a number whose text is kept.
    if !MET.with_borrow(Option::is_some) || name.starts_with("$serde_json") {
        return Err(E::custom(format_args!("unknown variant `{name}` of {owner}")));
    }
    met(format!("`{name}` of {owner}"));
    Ok(())
}

/// Reads an enum of the log: a word, or an object of one key.
pub(super) fn deserialize<'de, T: Stored, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Either<T>(PhantomData<T>);
    impl<'de, T: Stored> Visitor<'de> for Either<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a variant of {}", T::NAME)
        }
        fn visit_str<E: de::Error>(self, name: &str) -> Result<T, E> {
            T::bare(name)
        }
        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<T, M::Error> {
            let Some(name) = map.next_key::<Cow<'_, str>>()? else {
                return Err(de::Error::invalid_length(0, &self));
            };
            let value = T::with_data(&name, &mut map)?;
            match map.next_key::<IgnoredAny>()? {
                None => Ok(value),
                Some(_) => Err(de::Error::custom(format_args!("more than one variant of {}", T::NAME))),
            }
        }
    }
    deserializer.deserialize_any(Either(PhantomData))
}

/// Declares an enum of the log. `of Word` is for variants without data, which stay `Copy`; `of Foreign` for the others.
macro_rules! stored {
    (
        $(#[$attr:meta])*
        pub enum $name:ident of $unread:ident {
            $(
                $(#[$about:meta])*
                $variant:ident
                $( ( $inner:ty ) )?
                $( { $( $(#[$note:meta])* $field:ident : $ty:ty ),* $(,)? } )?
            ),*
            $(,)?
        }
    ) => {
        $(#[$attr])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $( $(#[$about])* $variant $( ( $inner ) )? $( { $( $(#[$note])* $field: $ty ),* } )?, )*
            /// A variant of a newer program: kept and shown, never acted upon.
            #[serde(untagged)]
            #[schemars(skip, !untagged)]
            Unknown($crate::protocol::stored::$unread),
        }

        const _: () = {
            use serde::de;
            use $crate::protocol::stored::{self, Stored, Unread};

            #[derive(serde::Deserialize)]
            #[serde(variant_identifier, rename_all = "snake_case")]
            enum Tag { $( $variant ),* }

            impl Stored for $name {
                const NAME: &'static str = stringify!($name);

                fn bare<E: de::Error>(name: &str) -> Result<Self, E> {
                    match stored::tag(Self::NAME, name)? {
                        $( Some(Tag::$variant) => {
                            stored!(@bare name $name $variant $( ( $inner ) )? $( { $( $field )* } )?)
                        } )*
                        None => Ok($name::Unknown(Unread::bare(name))),
                    }
                }

                fn with_data<'de, M: de::MapAccess<'de>>(name: &str, map: &mut M) -> Result<Self, M::Error> {
                    match stored::tag(Self::NAME, name)? {
                        $( Some(Tag::$variant) => {
                            stored!(@data map $name $variant $( ( $inner ) )? $( { $( $(#[$note])* $field: $ty ),* } )?)
                        } )*
                        None => Unread::with_data(name, map).map($name::Unknown),
                    }
                }
            }

            impl<'de> serde::Deserialize<'de> for $name {
                fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    stored::deserialize(deserializer)
                }
            }
        };
    };
    (@bare $key:ident $name:ident $variant:ident) => { Ok($name::$variant) };
    (@bare $key:ident $name:ident $variant:ident $data:tt) => {
        Err(de::Error::custom(format_args!("`{}` without its data", $key)))
    };
    (@data $map:ident $name:ident $variant:ident) => { $map.next_value::<()>().map(|()| $name::$variant) };
    (@data $map:ident $name:ident $variant:ident ( $inner:ty )) => { $map.next_value().map($name::$variant) };
    (@data $map:ident $name:ident $variant:ident { $( $(#[$note:meta])* $field:ident : $ty:ty ),* }) => {{
        #[derive(serde::Deserialize)]
        struct Data { $( $(#[$note])* $field: $ty ),* }
        let Data { $( $field ),* } = $map.next_value()?;
        Ok($name::$variant { $( $field ),* })
    }};
}

pub(crate) use stored;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_str, to_string};

    stored! {
        /// A word.
        #[derive(Copy, Eq)]
        pub enum Colour of Word {
            /// One.
            DarkRed,
            /// Another.
            Blue,
        }
    }

    stored! {
        /// Something larger.
        pub enum Shape of Foreign {
            /// Nothing.
            Point,
            /// Newtype.
            Painted(Colour),
            /// Fields.
            Box {
                /// One.
                wide: u32,
                /// Two.
                #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
                used: Option<Colour>,
            },
        }
    }

    #[test]
    fn known_names_are_read_strictly_and_written_as_serde_does() {
        for text in [
            r#""point""#,
            r#"{"painted":"dark_red"}"#,
            r#"{"box":{"wide":3}}"#,
            r#"{"box":{"wide":3,"use":"blue"}}"#,
        ] {
            let (shape, unknown) = read::<Shape>(text.as_bytes()).unwrap();
            assert_eq!((to_string(&shape).unwrap().as_str(), unknown.len()), (text, 0));
        }
        for damaged in [
            "5",
            "1.50",
            "null",
            "{}",
            r#""painted""#,
            r#"{"point":1}"#,
            r#"{"painted":{"dark_red":1}}"#,
            r#"{"painted":7}"#,
            r#"{"box":{"wide":-3}}"#,
            r#"{"box":{}}"#,
            r#"{"box":{"wide":3},"point":null}"#,
        ] {
            assert!(read::<Shape>(damaged.as_bytes()).is_err(), "{damaged}");
        }
    }

    #[test]
    fn unknown_names_are_kept_and_listed() {
        for (text, unknown) in [
            (r#""line""#, "`line` of Shape"),
            (r#"{"line":{"from":1.50}}"#, "`line` of Shape"),
            (r#"{"painted":"teal"}"#, "`teal` of Colour"),
            (r#"{"box":{"wide":3,"use":"teal"}}"#, "`teal` of Colour"),
        ] {
            let (shape, found) = read::<Shape>(text.as_bytes()).unwrap();
            assert_eq!(to_string(&shape).unwrap(), text);
            assert_eq!(found, [unknown]);
        }
        let (_, found) = read::<Shape>(br#"{"box":{"wide":3,"deep":[1]}}"#).unwrap();
        assert_eq!(found, ["field `box.deep`"]);
    }

    #[test]
    fn outside_a_log_an_unknown_name_is_refused_with_those_there_are() {
        let error = from_str::<Shape>(r#"{"painted":"teal"}"#).unwrap_err().to_string();
        assert!(error.contains("`teal`") && error.contains("`dark_red` or `blue`"), "{error}");
        assert!(from_str::<Shape>(r#""line""#).is_err());
    }
}
