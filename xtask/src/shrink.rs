//! Makes the built page smaller for gzip, without changing its behaviour.
//!
//! gzip finds repetitions within a window of 32 kB. So the functions of a program are sorted by name, where the
//! copies of one generic function are neighbours, and the copies by their bytes. `wasm-bindgen` sorts them by
//! size. Random text compresses worst. So the hashes in the names that a program and its script share become
//! numbers.

use std::collections::BTreeMap;
use std::convert::Infallible;

use wasm_encoder::reencode::{Error as Reencoding, Reencode};
use wasm_encoder::{CodeSection, FunctionSection, ImportSection, Module};
use wasmparser::{
    BinaryReaderError, CodeSectionReader, CustomSectionReader, FunctionBody, FunctionSectionReader,
    ImportSectionReader, KnownCustom, Name, Parser, Payload, TypeRef,
};

use crate::process::{Failure, Result, While as _};
use crate::programs::Loadable;

/// Shrinks a program and the script that loads it.
///
/// # Errors
/// It is no program that `wasm-bindgen` wrote, or has the standard library's sort more than once.
pub(crate) fn program(name: &str, program: &Loadable) -> Result<Loadable> {
    let doing = format!("putting {name} in order");
    let sorts = sorts(&program.wasm).during(&doing)?;
    if sorts > 1 {
        return Err(Failure::new(format!(
            "{name} has the standard library's sort {sorts} times: use `core/src/sorted.rs`, \
             also in place of a `collect` into a `BTreeMap` or a `BTreeSet`"
        )));
    }
    let short = short_names(&program.wasm).during(&doing)?;
    let wasm = by_name(&program.wasm, &short).during(&doing)?;
    Ok(Loadable { wasm, script: renamed(&program.script, &short) })
}

/// COUNT: how often the standard library's sort was compiled into a program.
fn sorts(program: &[u8]) -> std::result::Result<usize, BinaryReaderError> {
    let mut found = 0;
    for payload in Parser::new(0).parse_all(program) {
        if let Payload::CustomSection(section) = payload? {
            let names = function_names(&section)?;
            let is_sort = |name: &str| {
                ["::driftsort_main", "::ipnsort"].iter().any(|part| name.contains(part))
            };
            found += names.iter().filter(|(_, name)| is_sort(name)).count();
        }
    }
    Ok(found)
}

/// Shorter names for what a program imports under a name that ends with a hash.
fn short_names(program: &[u8]) -> std::result::Result<BTreeMap<String, String>, BinaryReaderError> {
    let mut short = BTreeMap::new();
    for payload in Parser::new(0).parse_all(program) {
        if let Payload::ImportSection(imports) = payload? {
            for import in imports.into_imports() {
                let name = import?.name;
                let hash = name.rsplit('_').next().unwrap_or_default();
                if hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                    let number = short.len();
                    short.entry(name.to_owned()).or_insert_with(|| format!("i{number}"));
                }
            }
        }
    }
    Ok(short)
}

/// A script or a style without its indentation, and without the lines that are comments.
pub(crate) fn trimmed(text: &str) -> String {
    let mut is_comment = false;
    let mut kept = String::new();
    for line in text.lines().map(str::trim) {
        is_comment |= line.starts_with("/*");
        if !is_comment && !line.is_empty() && !line.starts_with("//") {
            kept.push_str(line);
            kept.push('\n');
        }
        is_comment &= !line.ends_with("*/");
    }
    kept
}

/// A script that `wasm-bindgen` wrote, with short names.
fn renamed(script: &str, short: &BTreeMap<String, String>) -> String {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
    let mut text = String::new();
    let mut rest = script;
    while let Some(begin) = rest.find(is_part) {
        let (between, word) = rest.split_at(begin);
        let end = word.find(|letter| !is_part(letter)).unwrap_or(word.len());
        let (word, behind) = word.split_at(end);
        text.push_str(between);
        text.push_str(short.get(word).map_or(word, String::as_str));
        rest = behind;
    }
    text + rest
}

/// A program with its functions in the order of their names, which it loses, and its imports under
/// short ones.
fn by_name(
    program: &[u8],
    short: &BTreeMap<String, String>,
) -> std::result::Result<Vec<u8>, Reencoding> {
    let mut module = Module::new();
    ByName::of(program, short)?.parse_core_module(&mut module, Parser::new(0), program)?;
    Ok(module.finish())
}

/// An order of functions.
struct ByName<'a> {
    /// Positions of a program's own functions, in the order in which they shall stand.
    order: Vec<usize>,
    /// The number that each function gets, those that are imported first.
    numbers: Vec<u32>,
    /// Other names for what is imported.
    short: &'a BTreeMap<String, String>,
}

impl<'a> ByName<'a> {
    fn of(
        program: &[u8],
        short: &'a BTreeMap<String, String>,
    ) -> std::result::Result<Self, BinaryReaderError> {
        let (mut imported, mut own, mut names) = (0, Vec::new(), Vec::new());
        for payload in Parser::new(0).parse_all(program) {
            match payload? {
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        imported += usize::from(matches!(import?.ty, TypeRef::Func(_)));
                    }
                }
                Payload::CodeSectionEntry(body) => own.push(body.as_bytes()),
                Payload::CustomSection(section) => names.extend(function_names(&section)?),
                _ => {}
            }
        }
        let mut by_number = vec![""; imported + own.len()];
        for (number, name) in names {
            if let Some(place) = by_number.get_mut(number as usize) {
                *place = name;
            }
        }
        let mut order: Vec<_> = (0..own.len()).collect();
        order.sort_by_key(|&function| (unhashed(by_number[imported + function]), own[function]));
        let mut numbers: Vec<_> = (0..).take(imported + own.len()).collect();
        for (number, &function) in (0..).skip(imported).zip(&order) {
            numbers[imported + function] = number;
        }
        Ok(Self { order, numbers, short })
    }
}

/// A function's name without the hash that tells copies of one generic function apart.
fn unhashed(name: &str) -> &str {
    let hashed = name.rsplit_once("::h");
    hashed.filter(|(_, hash)| hash.len() == 16).map_or(name, |(name, _)| name)
}

fn function_names<'a>(
    section: &CustomSectionReader<'a>,
) -> std::result::Result<Vec<(u32, &'a str)>, BinaryReaderError> {
    let KnownCustom::Name(names) = section.as_known() else { return Ok(Vec::new()) };
    let mut functions = Vec::new();
    for part in names {
        if let Name::Function(map) = part? {
            for naming in map {
                functions.push(naming.map(|naming| (naming.index, naming.name))?);
            }
        }
    }
    Ok(functions)
}

impl Reencode for ByName<'_> {
    type Error = Infallible;

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        section: ImportSectionReader<'_>,
    ) -> std::result::Result<(), Reencoding> {
        for import in section.into_imports() {
            let import = import?;
            let name = self.short.get(import.name).map_or(import.name, String::as_str);
            let kind = self.entity_type(import.ty)?;
            imports.import(import.module, name, kind);
        }
        Ok(())
    }

    fn function_index(&mut self, function: u32) -> std::result::Result<u32, Reencoding> {
        Ok(self.numbers[function as usize])
    }

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        section: FunctionSectionReader<'_>,
    ) -> std::result::Result<(), Reencoding> {
        let types: Vec<u32> = section.into_iter().collect::<std::result::Result<_, _>>()?;
        for &function in &self.order {
            functions.function(types[function]);
        }
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: CodeSectionReader<'_>,
    ) -> std::result::Result<(), Reencoding> {
        let bodies: Vec<FunctionBody<'_>> =
            section.into_iter().collect::<std::result::Result<_, _>>()?;
        for function in self.order.clone() {
            self.parse_function_body(code, bodies[function].clone())?;
        }
        Ok(())
    }

    fn parse_custom_section(
        &mut self,
        _module: &mut Module,
        _section: CustomSectionReader<'_>,
    ) -> std::result::Result<(), Reencoding> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wasm_encoder::{
        ExportKind, ExportSection, Function, NameMap, NameSection, TypeSection, ValType,
    };

    use super::*;

    #[test]
    fn a_script_loses_what_only_people_read() {
        let short = [("__wbg_now_0123456789abcdef".to_owned(), "i0".to_owned())].into();
        let script = "/**\n * @returns\n */\nexport function f() {\n    // why\n    return {\n        \
                      __wbg_now_0123456789abcdef: () => x.__wbg_now_0123456789abcdef1,\n    };\n}\n";
        let expected =
            "export function f() {\nreturn {\ni0: () => x.__wbg_now_0123456789abcdef1,\n};\n}\n";
        assert_eq!(renamed(&trimmed(script), &short), expected);
    }

    /// A program of functions that return their positions; the last calls the first.
    fn program(names: &[&str]) -> Vec<u8> {
        let (mut types, mut functions) = (TypeSection::new(), FunctionSection::new());
        let (mut exports, mut code) = (ExportSection::new(), CodeSection::new());
        let mut map = NameMap::new();
        types.ty().function([], [ValType::I32]);
        for (number, name) in (0..).zip(names) {
            functions.function(0);
            exports.export(name, ExportKind::Func, number);
            map.append(number, name);
            let mut body = Function::new([]);
            let is_last = number as usize + 1 == names.len();
            let mut body_of = body.instructions();
            if is_last {
                body_of.call(0).end()
            } else {
                body_of.i32_const(number.cast_signed()).end()
            };
            code.function(&body);
        }
        let mut named = NameSection::new();
        named.functions(&map);
        let mut module = Module::new();
        module.section(&types).section(&functions).section(&exports).section(&code);
        module.section(&named);
        module.finish()
    }

    /// What each export is: its name, its number, and the first instruction of its function.
    fn exports(program: &[u8]) -> Vec<String> {
        let (mut exported, mut bodies) = (Vec::new(), Vec::new());
        for payload in Parser::new(0).parse_all(program) {
            match payload.expect("a program") {
                Payload::ExportSection(section) => exported.extend(section),
                Payload::CodeSectionEntry(body) => {
                    let mut operators = body.get_operators_reader().expect("a body");
                    bodies.push(format!("{:?}", operators.read().expect("an instruction")));
                }
                Payload::CustomSection(section) => panic!("{} is left", section.name()),
                _ => {}
            }
        }
        let exported = exported.into_iter().map(|export| export.expect("an export"));
        exported
            .map(|e| format!("{} is {}: {}", e.name, e.index, bodies[e.index as usize]))
            .collect()
    }

    #[test]
    fn sorts_are_counted() {
        let sort = "core::slice::sort::stable::driftsort_main::hb3444642b3240530";
        let other = "core::slice::sort::unstable::ipnsort::h56b70865b574b20c";
        assert_eq!(sorts(&program(&[sort, "places", other])).expect("a program"), 2);
    }

    #[test]
    fn copies_of_one_function_stand_by_what_they_do() {
        let copies = ["f::h00000000000000ff", "f::h00000000000000aa", "e"];
        let ordered = by_name(&program(&copies), &BTreeMap::new()).expect("a program");
        let first = "f::h00000000000000ff is 1: I32Const { value: 0 }";
        assert_eq!(
            exports(&ordered)[..2],
            [first, "f::h00000000000000aa is 2: I32Const { value: 1 }"]
        );
    }

    #[test]
    fn functions_stand_by_name_and_stay_themselves() {
        let ordered =
            by_name(&program(&["pear", "apple", "fig"]), &BTreeMap::new()).expect("a program");
        assert_eq!(
            exports(&ordered),
            [
                "pear is 2: I32Const { value: 0 }",
                "apple is 0: I32Const { value: 1 }",
                "fig is 1: Call { function_index: 2 }",
            ]
        );
    }
}
