//! The page that is shown during a build: it reports the progress, or why the build failed.

use crate::progress::Progress;

const PAGE: &str = include_str!("waiting.html");

/// The page in HTML.
pub(crate) fn page(progress: &Progress) -> String {
    let (state, main) = match &progress.failure {
        Some(failure) => ("the build failed".to_owned(), failed(failure, &progress.log)),
        None => (format!("building, {} %", progress.percent), building(progress)),
    };
    PAGE.replacen("{state}", &state, 1).replacen("{main}", &main, 1)
}

fn building(progress: &Progress) -> String {
    let Progress { step, part, percent, .. } = progress;
    let (step, part) = (escaped(step), escaped(part));
    format!(
        "<h1>Highwater is being built: {percent} %</h1>\n\
         <progress max=\"100\" value=\"{percent}\" aria-label=\"build\"></progress>\n\
         <p role=\"status\">{step}</p>\n<p>{part}</p>\n\
         <p>The first build takes some minutes, later ones seconds. The page appears here by itself.</p>"
    )
}

fn failed(failure: &str, log: &str) -> String {
    let (failure, log) = (escaped(failure), escaped(log));
    format!(
        "<h1>Highwater could not be built</h1>\n<p role=\"alert\">{failure}</p>\n<pre>{log}</pre>\n\
         <p>The build starts again when a source file changes.</p>"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::page;
    use crate::progress::Progress;

    #[test]
    fn the_page_tells_where_the_build_is() {
        let building = Progress {
            step: "compiling".to_owned(),
            part: "tachys".to_owned(),
            percent: 40,
            ..Progress::default()
        };
        let failed = Progress {
            failure: Some("`cargo build` ended".to_owned()),
            log: "error: expected `Vec<u8>`".to_owned(),
            ..Progress::default()
        };
        let cases: [(_, &[&str]); 2] = [
            (building, &["building, 40 %</title>", "value=\"40\"", "compiling", "tachys"]),
            (failed, &["the build failed</title>", "`cargo build` ended", "Vec&lt;u8&gt;"]),
        ];
        for (progress, expected) in cases {
            let page = page(&progress);
            for text in expected {
                assert!(page.contains(text), "{text} is not in {page}");
            }
        }
    }
}
