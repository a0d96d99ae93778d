// The page posts the address of the main script and its compiled WebAssembly; both halves of the
// program are the same file, so nothing is downloaded twice.

// What reads files is a program of its own. It is fetched ahead, once the line has
// nothing better to do, or when it is needed.
let reader;
const readers = () => (reader ??= load('highwater-reader'));
globalThis.fetchReaders = () => readers().catch(() => {});

// A file that a run needs and the programs do not carry. The run waits for it, and this thread with it.
globalThis.fileOf = (name) => {
  const request = new XMLHttpRequest();
  request.open('GET', name, false);
  request.responseType = 'arraybuffer';
  try {
    request.send();
  } catch {
    return undefined;
  }
  return request.status === 200 ? new Uint8Array(request.response) : undefined;
};

// Other estimators, once somebody asks them.
let estimators;
let failures = 0;
globalThis.othersElsewhere = async (run) => {
  // A browser remembers by its address what did not arrive.
  estimators ??= load('highwater-compare', failures ? `?${failures}` : '');
  try {
    return (await estimators).compare(run);
  } catch (reason) {
    estimators = undefined;
    failures += 1;
    throw reason;
  }
};

// What computes times, once somebody asks for them; the one that holds the open model.
let timers;
let timer;
globalThis.holdElsewhere = async (input) => {
  timers ??= load('highwater-time', failures ? `?${failures}` : '');
  try {
    timer = await timers;
    return timer.hold(input);
  } catch (reason) {
    timers = undefined;
    failures += 1;
    throw reason;
  }
};
globalThis.timeElsewhere = (ask) => timer.answer(ask);

// What reads recorded runs, once there is one, by the names of the programs; the one that read last,
// and the one whose run is on the page.
const recorders = {};
let last = null;
let shown = null;

globalThis.readElsewhere = async (input, name, config) => {
  const kind = await recorderOf(input);
  if (!kind) return (await readers()).read(input, name);
  last = recorders[kind] ??= await load(kind);
  return last.read(input, name, config);
};

globalThis.namesElsewhere = async () => (await readers()).names();

globalThis.keepElsewhere = (isRecorded) => {
  const next = isRecorded ? last : null;
  if (shown !== next) shown?.forget();
  shown = next;
};

globalThis.askElsewhere = (ask) => shown.answer(ask);

// The name of the program that reads a recorded run; nothing for what is none, as far as its beginning
// tells: a pickle is a memory snapshot, JSON with events a profiler's trace.
async function recorderOf(input) {
  const head = await beginning(input);
  if (head[0] === 0x80 && head[1] >= 2 && head[1] <= 5) return 'highwater-recorded';
  const text = new TextDecoder().decode(head).trimStart();
  if (text[0] === '{' && /"(traceEvents|schemaVersion)"/.test(text)) return 'highwater-profiled';
}

// The first bytes of an input, or of what gzip packed in it.
async function beginning(input) {
  const head = new Response(input.slice(0, 1 << 16));
  const packed = new Uint8Array(await head.clone().arrayBuffer());
  if (packed[0] !== 0x1f || packed[1] !== 0x8b) return packed;
  const unpacked = head.body.pipeThrough(new DecompressionStream('gzip')).getReader();
  // What ends in the middle is an error, but not with its first chunk.
  const { value } = await unpacked.read().catch(() => ({}));
  return value ?? packed;
}

async function load(name, search = '') {
  const program = await import(`./${name}.js${search}`);
  await program.default({ module_or_path: fetch(new URL(`${name}_bg.wasm`, import.meta.url)) });
  return program;
}

onmessage = async ({ data: { main, module } }) => {
  onmessage = null;
  const { default: start } = await import(main);
  await start({ module_or_path: module });
};
