//! Which fields differ, told without the values: short salted hashes of a content's fields.
//!
//! With an operation a few bytes are kept, from which a later content under the same key can be held against the first,
//! field by field. A hash of two bytes says whether a value is the same; it does not say what it is. The salt is the
//! mark of the request that brought the content, which is random, so equal values leave different bytes in different
//! operations. That request wrote the operation, or it was granted the claim that the operation was completed under.
//!
//! ```text
//! grain, 2 bits | hash of the move, 14 bits | for each field: name, 1 byte, and value, 2 bytes
//! ```

use sha2::{Digest as _, Sha256};

use super::canonical;
use super::json::Json;
use super::pointer::{push_step, short_enough};
use crate::domain::ids::Mark;
use crate::domain::request::Move;

/// Most fields of one content that hashes are kept of. Beyond it the members of the outermost object are taken for fields,
/// and beyond that none is kept.
pub const FIELDS_KEPT_MAX: usize = 16;
/// Most fields of a content that are held against those that were kept.
pub const FIELDS_COMPARED_MAX: usize = 64;
/// Most differing fields that are told.
pub const FIELDS_TOLD_MAX: usize = 16;
/// What is kept of a content's fields takes at most this, in bytes.
pub const FIELD_HASHES_BYTES_MAX: usize = HEAD_BYTES + FIELDS_KEPT_MAX * FIELD_BYTES;

const HEAD_BYTES: usize = 2;
const FIELD_BYTES: usize = 3;
/// The bits of the first byte that tell the grain.
const GRAIN_BITS: u8 = 0b1100_0000;
/// A canonical form longer than this waits for its comparison as a hash.
const FORM_BYTES_MAX: usize = 32;

const _: () = assert!(FIELDS_KEPT_MAX <= FIELDS_COMPARED_MAX);

/// What counts as a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grain {
    /// None is kept.
    None,
    /// Each value that has no values in it.
    Leaves,
    /// Each member of the outermost object or array, or each part that the rule includes.
    Top,
}

impl Grain {
    fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Leaves => 0b0100_0000,
            Self::Top => 0b1000_0000,
        }
    }

    /// Of the first byte that is kept.
    fn of(first: u8) -> Option<Self> {
        match first & GRAIN_BITS {
            0 => Some(Self::None),
            0b0100_0000 => Some(Self::Leaves),
            0b1000_0000 => Some(Self::Top),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    /// What is told of it: its pointer, or the nearest above it that is short enough.
    told: String,
    name: u8,
    /// The canonical form, or its hash if it is long.
    value: Box<[u8]>,
}

/// The fields of a content as it came, for as long as its request is judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    /// `None`: too many.
    leaves: Option<Vec<Field>>,
    /// `None`: too many.
    top: Option<Vec<Field>>,
}

impl Fields {
    /// Of the parts that are compared, each with its pointer.
    pub(super) fn of(parts: &[(&str, &Json<'_>)]) -> Self {
        let mut leaves = Gathered::default();
        let mut top = Gathered::default();
        for (pointer, part) in parts {
            let mut pointer = (*pointer).to_owned();
            leaves.leaves(&mut pointer, part);
            // The whole content is the only part without a name of its own.
            if pointer.is_empty() {
                top.parts(&mut pointer, part);
            } else {
                top.add(&pointer, part);
            }
        }
        Self {
            leaves: leaves.fields(),
            top: top.fields(),
        }
    }

    /// What is kept of them, in as fine a grain as there is room for.
    fn kept(&self, salt: Mark, movement: [u8; 2]) -> Vec<u8> {
        let fits = |fields: &&Vec<Field>| fields.len() <= FIELDS_KEPT_MAX;
        let leaves = self.leaves.as_ref().filter(fits);
        let top = self.top.as_ref().filter(fits);
        let (grain, fields) = match (leaves, top) {
            (Some(leaves), _) => (Grain::Leaves, leaves.as_slice()),
            (None, Some(top)) => (Grain::Top, top.as_slice()),
            (None, None) => (Grain::None, &[][..]),
        };
        let [first, second] = movement;
        let mut kept = vec![grain.code() | first, second];
        for field in fields {
            kept.push(field.name);
            kept.extend(field.salted(salt));
        }
        kept
    }
}

impl Field {
    fn new(pointer: &str, value: &Json<'_>) -> Self {
        let form = canonical::bare_form(value);
        Self {
            told: short_enough(pointer).to_owned(),
            name: short_hash([pointer])[0],
            value: if form.len() > FORM_BYTES_MAX {
                Sha256::digest(&form).as_slice().into()
            } else {
                form.into_boxed_slice()
            },
        }
    }

    fn salted(&self, salt: Mark) -> [u8; 2] {
        let hash = Sha256::new().chain_update(salt.as_bytes());
        let [first, second, ..] = <[u8; 32]>::from(hash.chain_update(&self.value).finalize());
        [first, second]
    }
}

/// Fields, until there are too many.
#[derive(Default)]
struct Gathered {
    fields: Vec<Field>,
    too_many: bool,
}

impl Gathered {
    fn fields(self) -> Option<Vec<Field>> {
        (!self.too_many).then_some(self.fields)
    }

    fn add(&mut self, pointer: &str, value: &Json<'_>) {
        if self.fields.len() == FIELDS_COMPARED_MAX {
            self.too_many = true;
        } else {
            self.fields.push(Field::new(pointer, value));
        }
    }

    /// Recursion is bounded: no value is deeper than the reader lets through.
    fn leaves(&mut self, pointer: &mut String, value: &Json<'_>) {
        if value.parts().next().is_none() {
            return self.add(pointer, value);
        }
        each_part(pointer, value, |pointer, part| {
            self.leaves(pointer, part);
            !self.too_many
        });
    }

    fn parts(&mut self, pointer: &mut String, value: &Json<'_>) {
        if value.parts().next().is_none() {
            return self.add(pointer, value);
        }
        each_part(pointer, value, |pointer, part| {
            self.add(pointer, part);
            !self.too_many
        });
    }
}

/// Visits what is directly in a value, with its pointer, until it has seen enough.
fn each_part(
    pointer: &mut String,
    value: &Json<'_>,
    mut visit: impl FnMut(&mut String, &Json<'_>) -> bool,
) {
    let length = pointer.len();
    for (name, part) in value.parts() {
        push_step(pointer, &name);
        let goes_on = visit(pointer, part);
        pointer.truncate(length);
        if !goes_on {
            return;
        }
    }
}

/// What is kept of a content's fields with its operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldHashes {
    kept: Box<[u8]>,
    /// `None`: the mark of the request that wrote what they are kept with.
    salt: Option<Mark>,
}

impl FieldHashes {
    /// Of the fields of a content, of an operation that is written by the request with this nonce and makes this move.
    pub(super) fn new(fields: &Fields, salt: Mark, movement: Option<&Move>) -> Self {
        let kept = fields.kept(salt, hash_of_move(movement));
        Self::plain(&kept)
    }

    /// Of a content whose fields cannot be named.
    pub(super) fn without_fields(movement: Option<&Move>) -> Self {
        Self::plain(&hash_of_move(movement))
    }

    fn plain(kept: &[u8]) -> Self {
        Self {
            kept: kept.into(),
            salt: None,
        }
    }

    /// The same, kept with what another request has written than the one with this mark, which is their salt.
    #[must_use]
    pub fn salted_by(self, salt: Mark) -> Self {
        if self.kept.is_empty() {
            return self;
        }
        Self {
            salt: Some(salt),
            ..self
        }
    }

    /// Their salt, where it is not the mark of the request that wrote what they are kept with.
    pub fn salt(&self) -> Option<Mark> {
        self.salt
    }

    /// As stored. `None`: no content leaves such bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let whole = match bytes {
            [] => true,
            [first, _, fields @ ..] => {
                let most = match Grain::of(*first)? {
                    Grain::None => 0,
                    Grain::Leaves | Grain::Top => FIELDS_KEPT_MAX,
                };
                fields.len() % FIELD_BYTES == 0 && fields.len() / FIELD_BYTES <= most
            }
            _ => false,
        };
        whole.then(|| Self::plain(bytes))
    }

    /// To be stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.kept
    }

    /// Whether the operations made the same move, as far as a short hash can tell.
    pub(in crate::domain) fn same_move(&self, movement: Option<&Move>) -> bool {
        let same = hash_of_move(movement);
        matches!(*self.kept, [first, second, ..] if [first & !GRAIN_BITS, second] == same)
    }

    /// JSON Pointers to the fields in which a content differs from the one that these were kept of. The empty pointer stands
    /// for the content as a whole: a field that the first had is missing, or the two were too wide to be told apart.
    pub(super) fn differing(&self, fields: &Fields, salt: Mark) -> Vec<String> {
        let told = self.compared(fields, self.salt.unwrap_or(salt));
        let mut told = told.unwrap_or_default();
        told.dedup();
        told.truncate(FIELDS_TOLD_MAX);
        if told.is_empty() {
            told.push(String::new());
        }
        told
    }

    fn compared(&self, fields: &Fields, salt: Mark) -> Option<Vec<String>> {
        let [first, _, kept @ ..] = &*self.kept else {
            return None;
        };
        let fields = match Grain::of(*first)? {
            Grain::None => return None,
            Grain::Leaves => fields.leaves.as_ref()?,
            Grain::Top => fields.top.as_ref()?,
        };
        let mut kept: Vec<[u8; FIELD_BYTES]> = kept
            .chunks_exact(FIELD_BYTES)
            .filter_map(|field| field.try_into().ok())
            .collect();
        // The equal ones first: names are short hashes too, and a changed field must not take the place of another.
        let mut changed = Vec::new();
        for field in fields {
            let [first, second] = field.salted(salt);
            let same = [field.name, first, second];
            match kept.iter().position(|kept| *kept == same) {
                Some(at) => drop(kept.swap_remove(at)),
                None => changed.push(field),
            }
        }
        let mut told = Vec::new();
        for field in changed {
            if let Some(at) = kept.iter().position(|kept| kept[0] == field.name) {
                kept.swap_remove(at);
            }
            told.push(field.told.clone());
        }
        if !kept.is_empty() {
            told.insert(0, String::new());
        }
        Some(told)
    }
}

/// Tells moves apart: where they lead, and what they set. It leaves the bits of the grain free.
fn hash_of_move(movement: Option<&Move>) -> [u8; 2] {
    let Some(movement) = movement else {
        return [0; 2];
    };
    let to = movement.to.as_ref().map_or("", |state| state.as_str());
    let sets = movement.sets.keys().map(|name| name.as_str());
    let [first, second] = short_hash(std::iter::once(to).chain(sets));
    match [first & !GRAIN_BITS, second] {
        // That stands for no move at all.
        [0, 0] => [0, 1],
        hash => hash,
    }
}

/// A short hash of names, which are no secret (FNV-1a, folded).
fn short_hash<'n>(names: impl IntoIterator<Item = &'n str>) -> [u8; 2] {
    const BASIS: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    let mut hash = BASIS;
    for name in names {
        for byte in name.bytes().chain([0]) {
            hash = (hash ^ u32::from(byte)).wrapping_mul(PRIME);
        }
    }
    let [a, b, c, d] = hash.to_be_bytes();
    [a ^ c, b ^ d]
}
