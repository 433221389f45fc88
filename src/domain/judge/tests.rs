//! Tests of the judgement.
