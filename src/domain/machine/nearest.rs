//! The known name that somebody most likely meant.

/// Longer texts are no slip of the finger; comparing them would cost more than it tells. In characters.
const COMPARED_CHARACTERS_MAX: usize = 64;

/// Most names that an advice lists.
const LISTED_MAX: usize = 8;

/// The nearest of the known names, if one is near enough to be meant.
pub(super) fn nearest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters: Vec<char> = text.trim().to_lowercase().chars().collect();
    if letters.len() > COMPARED_CHARACTERS_MAX {
        return None;
    }
    let most = letters.len().div_ceil(3).max(1);
    known
        .into_iter()
        .map(|name| (distance(&letters, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, name)| name)
}

/// How many letters must be put in, left out, exchanged or swapped with their neighbour.
fn distance(from: &[char], to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, letter) in from.iter().enumerate() {
        let mut this = vec![row + 1];
        for (column, other) in to.iter().enumerate() {
            let exchanged = last[column] + usize::from(letter != other);
            let mut best = exchanged.min(last[column + 1] + 1).min(this[column] + 1);
            let swapped =
                row > 0 && column > 0 && from[row - 1] == *other && to[column - 1] == *letter;
            if swapped {
                best = best.min(before[column - 1] + 1);
            }
            this.push(best);
        }
        before = std::mem::replace(&mut last, this);
    }
    last.last().copied().unwrap_or(from.len())
}

/// `did you mean "…"?` if a name is near, else all that may stand there.
pub(super) fn advice<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match (nearest(text, known.iter().copied()), known.as_slice()) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, []) => "there is none yet; declare it".to_owned(),
        (None, all) if all.len() <= LISTED_MAX => format!("write one of {}", all.join(", ")),
        (None, all) => {
            let first: Vec<&str> = all.iter().take(LISTED_MAX).copied().collect();
            format!(
                "write one of {}, … ({} in all)",
                first.join(", "),
                all.len()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_another_word_finds_none() {
        let known = ["matches", "sets", "clears", "from"];
        for (slip, meant) in [
            ("match", Some("matches")),
            ("matchs", Some("matches")),
            ("form", Some("from")),
            ("Sets", Some("sets")),
            ("set", Some("sets")),
            ("clear", Some("clears")),
            ("frobnicate", None),
            ("", None),
        ] {
            assert_eq!(nearest(slip, known), meant, "{slip}");
        }
        assert_eq!(nearest(&"x".repeat(100_000), known), None);
    }
}
