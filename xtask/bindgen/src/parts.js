// Fetches the parts of the program, each once. What several of them use lies in packs: programs one behind the other.
import { initSync } from "MAIN";

const imports = () => ({ __wasm_split: initSync(undefined, undefined) });

// What `load` promises; asked again if that failed.
function once(load) {
  let loaded;
  return () => (loaded ??= load().catch((reason) => {
    loaded = undefined;
    throw reason;
  }));
}

// The programs of a pack, which begin at these places; the last place is its end.
function pack([file, starts]) {
  const fetched = once(async () => {
    const response = await fetch(new URL(file, import.meta.url));
    if (!response.ok) throw new Error(`${response.url}: ${response.status}`);
    return new Uint8Array(await response.arrayBuffer());
  });
  return starts.slice(1).map((end, number) => once(async () => {
    const program = (await fetched()).subarray(starts[number], end);
    return WebAssembly.instantiate(program, imports());
  }));
}

const PACKED = [PACKS];
const packs = PACKED.map(pack);

// Fetches the files of a part for whoever needs them next: the browser keeps them.
const files = {};
globalThis.fetchAhead = (name) => {
  for (const file of files[name]) fetch(new URL(file, import.meta.url)).then((it) => it.arrayBuffer()).catch(() => {});
};

// The function that fetches a part and calls back, with whether it is there.
function part(name, file, needs) {
  files[name] = [...new Set(needs.map(([pack]) => PACKED[pack][0])), ...(file ? [file] : [])];
  const load = once(async () => {
    const response = file && fetch(new URL(file, import.meta.url));
    await Promise.all([response, ...needs.map(([pack, number]) => packs[pack][number]())]);
    if (file) await WebAssembly.instantiateStreaming(response, imports());
  });
  return async (callback, data) => {
    const isThere = await load().then(() => true, (reason) => console.error(reason));
    initSync(undefined, undefined).__indirect_function_table.get(callback)(data, isThere === true);
  };
}

