// The page posts the address of the main script and its compiled WebAssembly; both halves of the
// program are the same file, so nothing is downloaded twice.
onmessage = async ({ data: { main, module } }) => {
  onmessage = null;
  const { default: start } = await import(main);
  await start({ module_or_path: module });
};
