//! Content digests.
/// Which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DigestScheme {
    /// JSON
    JsonV1,
    /// Raw
    Raw,
    /// Caller
    Caller,
}
/// Digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentDigest {
    scheme: DigestScheme,
    bytes: Vec<u8>,
}
impl ContentDigest {
    /// Bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// Scheme
    pub fn scheme(&self) -> DigestScheme {
        self.scheme
    }
}
