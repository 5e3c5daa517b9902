//! Arithmetic: expressions such as `(4k*2+1)` in place of a number, with the operators of fio's HOWTO: `+ - * / % ^`.
//!
//! All values are whole numbers. A fio that is built without this feature (as Debian does) refuses the parentheses.

/// A value, or why it was refused; the caller adds the key.
pub(crate) type ValueResult<T> = Result<T, String>;

/// Most characters of an expression; this bounds how deep it nests.
const LENGTH_MAX: usize = 1000;

/// The value of `text` without its outer parentheses; `number` reads one operand.
///
/// # Errors
/// What does not belong in the expression; a result that is negative or too large.
pub(super) fn value(text: &str, number: impl Fn(&str) -> ValueResult<u64>) -> ValueResult<u64> {
    if text.len() > LENGTH_MAX {
        return Err(format!("it has {} characters; arithmetic has at most {LENGTH_MAX}", text.len()));
    }
    let mut reader = Reader { text, rest: text, number: &number };
    let result = reader.sum()?;
    if !reader.rest.trim().is_empty() {
        return Err(format!("`{text}`: `{}` is left over", reader.rest.trim()));
    }
    u64::try_from(result).map_err(|_| format!("`{text}` is {result}, which is no size"))
}

struct Reader<'a, F> {
    text: &'a str,
    rest: &'a str,
    number: &'a F,
}

impl<F: Fn(&str) -> ValueResult<u64>> Reader<'_, F> {
    fn take(&mut self, operators: &[char]) -> Option<char> {
        self.rest = self.rest.trim_start();
        let next = self.rest.chars().next().filter(|letter| operators.contains(letter))?;
        self.rest = &self.rest[1..];
        Some(next)
    }

    fn overflow(&self) -> String {
        format!("`{}` is too large, or divides by zero", self.text)
    }

    fn sum(&mut self) -> ValueResult<i128> {
        let mut left = self.product()?;
        while let Some(operator) = self.take(&['+', '-']) {
            let right = self.product()?;
            let result = if operator == '+' { left.checked_add(right) } else { left.checked_sub(right) };
            left = result.ok_or_else(|| self.overflow())?;
        }
        Ok(left)
    }

    fn product(&mut self) -> ValueResult<i128> {
        let mut left = self.power()?;
        while let Some(operator) = self.take(&['*', '/', '%']) {
            let right = self.power()?;
            let result = match operator {
                '*' => left.checked_mul(right),
                '/' => left.checked_div(right),
                _ => left.checked_rem(right),
            };
            left = result.ok_or_else(|| self.overflow())?;
        }
        Ok(left)
    }

    fn power(&mut self) -> ValueResult<i128> {
        let base = self.operand()?;
        if self.take(&['^']).is_none() {
            return Ok(base);
        }
        let exponent = self.power()?;
        let result = u32::try_from(exponent).ok().and_then(|exponent| base.checked_pow(exponent));
        result.ok_or_else(|| self.overflow())
    }

    fn operand(&mut self) -> ValueResult<i128> {
        if self.take(&['-']).is_some() {
            return Ok(-self.operand()?);
        }
        if self.take(&['(']).is_some() {
            let inner = self.sum()?;
            return match self.take(&[')']) {
                Some(_) => Ok(inner),
                None => Err(format!("`{}` lacks a `)`", self.text)),
            };
        }
        let end = self.rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(i128::from((self.number)(word)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::bytes;
    use super::*;

    #[test]
    fn operators_bind_as_in_arithmetic() {
        let cases =
            [("4k*2", 8192), ("1+2*3", 7), ("(1+2)*3", 9), ("2^3^2", 512), ("7%4-1", 2), ("-1+5", 4), ("1k / 2", 512)];
        for (text, expected) in cases {
            assert_eq!(value(text, bytes), Ok(expected), "{text}");
        }
    }

    #[test]
    fn depth_ends_before_the_stack_does() {
        let deep = |depth: usize| value(&format!("{}1{}", "(".repeat(depth), ")".repeat(depth)), bytes);
        assert_eq!(deep(499), Ok(1));
        for text in ["(".repeat(100_000), "-".repeat(100_000), "2^".repeat(100_000)] {
            assert!(value(&text, bytes).unwrap_err().contains("at most 1000"));
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        assert!(["", "1-2", "1/0", "(1", "1)", "2^999", "4q", "1 2"].iter().all(|text| value(text, bytes).is_err()));
    }
}
