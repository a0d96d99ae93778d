//! Makes the built page smaller for gzip, without changing its behaviour.
//!
//! gzip finds repetitions within a window of 32 kB. So functions that are alike become neighbours; `wasm-bindgen`
//! sorts them by size. Of functions that do the same, one is kept. Random text compresses worst. So the hashes in
//! the names that a program and its script share become numbers.

use std::collections::BTreeMap;
use std::convert::Infallible;

use wasm_encoder::reencode::{Error as Reencoding, Reencode};
use wasm_encoder::{CodeSection, Encode as _, FunctionSection, ImportSection, Module};
use wasmparser::{
    BinaryReaderError, CodeSectionReader, CustomSectionReader, FunctionBody, FunctionSectionReader,
    ImportSectionReader, KnownCustom, Name, Parser, Payload, TypeRef,
};

use crate::likeness;
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
    let wasm = in_order(&program.wasm, &short).during(&doing)?;
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

/// A program with like functions next to each other, without copies and names, and with short names for imports.
fn in_order(
    program: &[u8],
    short: &BTreeMap<String, String>,
) -> std::result::Result<Vec<u8>, Reencoding> {
    let mut module = Module::new();
    InOrder::of(program, short)?.parse_core_module(&mut module, Parser::new(0), program)?;
    Ok(module.finish())
}

/// An order of functions.
struct InOrder<'a> {
    /// Positions of those of a program's own functions that are kept, in the order in which they shall stand.
    order: Vec<usize>,
    /// The number that each function gets, those that are imported first.
    numbers: Vec<u32>,
    /// Other names for what is imported.
    short: &'a BTreeMap<String, String>,
}

impl<'a> InOrder<'a> {
    fn of(
        program: &[u8],
        short: &'a BTreeMap<String, String>,
    ) -> std::result::Result<Self, Reencoding> {
        let (mut imported, mut types) = (0, Vec::new());
        let (mut own, mut names) = (Vec::new(), Vec::new());
        for payload in Parser::new(0).parse_all(program) {
            match payload? {
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        imported += usize::from(matches!(import?.ty, TypeRef::Func(_)));
                    }
                }
                Payload::FunctionSection(section) => {
                    types = section.into_iter().collect::<std::result::Result<_, _>>()?;
                }
                Payload::CodeSectionEntry(body) => own.push(body),
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
        let numbers = (0..).take(imported + own.len()).collect();
        let mut this = Self { order: Vec::new(), numbers, short };
        this.order = this.merge(imported, &types, &own)?;
        let bytes = |function: usize| own[function].as_bytes();
        let name = |function: usize| unhashed(by_number[imported + function]);
        this.order.sort_by_key(|&function| (name(function), bytes(function)));
        let bodies: Vec<_> = this.order.iter().map(|&function| bytes(function)).collect();
        this.order = likeness::order(&bodies).into_iter().map(|place| this.order[place]).collect();
        let mut places = vec![0; own.len()];
        for (number, &function) in (0..).zip(&this.order) {
            places[function] = number;
        }
        for number in &mut this.numbers[imported..] {
            let kept = *number as usize - imported;
            *number = u32::try_from(imported).unwrap_or(u32::MAX) + places[kept];
        }
        Ok(this)
    }

    /// Gives functions that do the same one number, and lists those that are kept. What calls copies of a
    /// function becomes a copy itself, so this goes on until none is left.
    fn merge(
        &mut self,
        imported: usize,
        types: &[u32],
        own: &[FunctionBody<'_>],
    ) -> std::result::Result<Vec<usize>, Reencoding> {
        let mut kept: Vec<usize> = (0..own.len()).collect();
        loop {
            let mut first = BTreeMap::<(u32, Vec<u8>), u32>::new();
            let (mut copies, mut left) = (BTreeMap::new(), Vec::new());
            for function in kept {
                let number = self.numbers[imported + function];
                let mut code = CodeSection::new();
                self.parse_function_body(&mut code, own[function].clone())?;
                let mut bytes = Vec::new();
                code.encode(&mut bytes);
                let same = *first.entry((types[function], bytes)).or_insert(number);
                if same == number {
                    left.push(function);
                } else {
                    copies.insert(number, same);
                }
            }
            for number in &mut self.numbers {
                *number = copies.get(number).copied().unwrap_or(*number);
            }
            kept = left;
            if copies.is_empty() {
                return Ok(kept);
            }
        }
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

impl Reencode for InOrder<'_> {
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
        let body = |(number, _): (i32, _)| {
            let mut body = Function::new([]);
            if usize::try_from(number).is_ok_and(|number| number + 1 == names.len()) {
                body.instructions().call(0).end();
            } else {
                body.instructions().i32_const(number).end();
            }
            body
        };
        program_of(names, &(0..).zip(names).map(body).collect::<Vec<_>>())
    }

    fn program_of(names: &[&str], bodies: &[Function]) -> Vec<u8> {
        let (mut types, mut functions) = (TypeSection::new(), FunctionSection::new());
        let (mut exports, mut code) = (ExportSection::new(), CodeSection::new());
        let mut map = NameMap::new();
        types.ty().function([], [ValType::I32]);
        for ((number, name), body) in (0..).zip(names).zip(bodies) {
            functions.function(0);
            exports.export(name, ExportKind::Func, number);
            map.append(number, name);
            code.function(body);
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
    fn functions_stand_by_name_where_none_are_alike() {
        let ordered =
            in_order(&program(&["pear", "apple", "fig"]), &BTreeMap::new()).expect("a program");
        assert_eq!(
            exports(&ordered),
            [
                "pear is 2: I32Const { value: 0 }",
                "apple is 0: I32Const { value: 1 }",
                "fig is 1: Call { function_index: 2 }",
            ]
        );
    }

    #[test]
    fn of_functions_that_do_the_same_one_is_kept() {
        let calls = |function| {
            let mut body = Function::new([]);
            body.instructions().call(function).end();
            body
        };
        let returns = |number| {
            let mut body = Function::new([]);
            body.instructions().i32_const(number).end();
            body
        };
        let names = ["c", "b", "a", "calls b", "calls a"];
        let bodies = [returns(1), returns(2), returns(2), calls(1), calls(2)];
        let merged = in_order(&program_of(&names, &bodies), &BTreeMap::new()).expect("a program");
        assert_eq!(
            exports(&merged),
            [
                "c is 1: I32Const { value: 1 }",
                "b is 0: I32Const { value: 2 }",
                "a is 0: I32Const { value: 2 }",
                "calls b is 2: Call { function_index: 0 }",
                "calls a is 2: Call { function_index: 0 }",
            ]
        );
    }
}
