//! Origin of a document, for a page that is made of it later.

use serde_json::Value;

use crate::output;

/// Origin of a folder's document, as far as recorded, and the time of the page: later, and maybe on
/// another machine.
pub(super) fn recorded(document: &str) -> Vec<(String, String)> {
    let page_made = ("page made".to_owned(), output::now());
    of(document).into_iter().chain([page_made]).collect()
}

/// Time and machine of a document, as far as recorded.
pub(super) fn of(document: &str) -> Vec<(String, String)> {
    let document = serde_json::from_str::<Value>(document).unwrap_or_default();
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let known = [
        ("version", "/tool/version"),
        ("kernel", "/host/kernel"),
        ("processors", "/host/cpus"),
        ("time", "/time"),
    ];
    let known = known.into_iter().filter_map(|(name, place)| {
        let value = document.pointer(place).and_then(text)?;
        Some((name.to_owned(), value))
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_of_the_machine_that_its_document_names() {
        let check = |document: &str, expected: &[(&str, &str)]| {
            let mut told = recorded(document);
            assert_eq!(
                told.pop().map(|(name, _)| name).as_deref(),
                Some("page made")
            );
            let told: Vec<(&str, &str)> = told.iter().map(|(n, v)| (&**n, &**v)).collect();
            assert_eq!(told, expected);
        };
        let document = r#"{"tool": {"version": "0.0.9"}, "host": {"kernel": "4.19.0", "cpus": 96},
            "time": "2019-03-04T05:06:07Z"}"#;
        let expected = [
            ("version", "0.0.9"),
            ("kernel", "4.19.0"),
            ("processors", "96"),
            ("time", "2019-03-04T05:06:07Z"),
        ];
        check(document, &expected);
        check(r#"{"host": {"kernel": null}}"#, &[]);
        let own = output::document("lab-reproduce", &()).expect("plain data");
        assert_eq!(recorded(&own).len(), output::provenance().len() + 1);
    }
}
