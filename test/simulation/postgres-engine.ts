/**
 * PostgreSQL itself in this process: PGlite, one backend that speaks the protocol, without threads, files or its own clock (it uses Date).
 * Its state can be saved, and every scenario starts with exactly that state: its memory and its files are restored, which takes some
 * hundredths of a second and leaves no trace of the previous scenario.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { message, readRows, statement, type Value } from './postgres-protocol.ts';

/** A node of Emscripten's in-memory file system, as far as it is restored. */
interface FileNode {
  mode: number;
  name: string;
  parent: FileNode;
  name_next?: FileNode;
  usedBytes: number;
  /** Bytes of a file, or the nodes of a folder by name. */
  contents: Uint8Array | Record<string, FileNode>;
  node_ops: { setattr(node: FileNode, attributes: object): void };
  stream_ops: { write(stream: { node: FileNode }, ...rest: unknown[]): number };
}

interface OpenStream {
  shared: { flags: number; position: number };
}

interface FileSystem {
  lookupPath(path: string): { node: FileNode };
  isFile(mode: number): boolean;
  isDir(mode: number): boolean;
  nameTable: (FileNode | undefined)[];
  streams: (OpenStream | null)[];
  nextInode: number;
}

const DATA = '/pglite/data';
/** Without -F, which would disable fsync: the product refuses such a server. */
const ARGUMENTS = [...PGlite.defaultStartParams.filter((one) => one !== '-F'), '-c', 'shared_buffers=4MB'];

/** Its types belong to browsers. */
const { WebAssembly } = globalThis as unknown as { WebAssembly: { compile(bytes: Uint8Array): Promise<never> } };

function release(file: string): Uint8Array<ArrayBuffer> {
  const entry = createRequire(import.meta.url).resolve('@electric-sql/pglite');
  return new Uint8Array(readFileSync(entry.replace(/[^/]*$/, file)));
}

const { version } = JSON.parse(Buffer.from(release('../package.json')).toString());
/** The data of a new server, written by the first process: creating it takes most of the time of a start. */
const NEW_DATA = path.join(import.meta.dirname, `../../node_modules/.cache/postrider-pglite-${version}.tar`);

/** Reads its files itself, because the promises of node:fs are simulated. */
async function openPglite(): Promise<PGlite> {
  const isNew = !existsSync(NEW_DATA);
  const options = {
    startParams: ARGUMENTS,
    pgliteWasmModule: await WebAssembly.compile(release('pglite.wasm')),
    initdbWasmModule: await WebAssembly.compile(release('initdb.wasm')),
    fsBundle: new Blob([release('pglite.data')]),
    ...(!isNew && { loadDataDir: new Blob([readFileSync(NEW_DATA)]) }),
  };
  const { setTimeout } = globalThis;
  // The recovery of the data sets an alarm, as in exec().
  globalThis.setTimeout = (() => 0) as unknown as typeof setTimeout;
  const pglite = await PGlite.create(options);
  globalThis.setTimeout = setTimeout;
  if (!isNew) return pglite;
  const data = await pglite.dumpDataDir('none');
  const written = `${NEW_DATA}.${process.pid}`;
  mkdirSync(path.dirname(NEW_DATA), { recursive: true });
  writeFileSync(written, Buffer.from(await data.arrayBuffer()));
  renameSync(written, NEW_DATA);
  await pglite.close();
  return await openPglite();
}

export class PostgresEngine {
  readonly #pglite: PGlite;
  readonly #files: FileSystem;
  /** Files that were written since the state was saved. */
  readonly #written = new Set<FileNode>();
  #putBack: (() => void) | undefined;

  constructor(pglite: PGlite) {
    this.#pglite = pglite;
    this.#files = pglite.Module.FS as unknown as FileSystem;
    const { node_ops: nodeOps, stream_ops: streamOps } = this.#files.lookupPath(`${DATA}/PG_VERSION`).node;
    const { setattr } = nodeOps;
    const { write } = streamOps;
    nodeOps.setattr = (node, attributes) => {
      this.#written.add(node);
      setattr(node, attributes);
    };
    streamOps.write = (stream, ...rest) => {
      this.#written.add(stream.node);
      return write(stream, ...rest);
    };
  }

  static async start(): Promise<PostgresEngine> {
    return new PostgresEngine(await openPglite());
  }

  /**
   * Runs messages of the protocol, up to a Sync or a Query, and returns the reply. Takes no simulated time. The backend's alarms never
   * fire: they would be timers of the caller.
   */
  exec(messages: Uint8Array): Buffer {
    const { setTimeout } = globalThis;
    globalThis.setTimeout = (() => 0) as unknown as typeof setTimeout;
    const said: Buffer[] = [];
    // Complete when it returns: only its later storage step would need waiting.
    void this.#pglite.execProtocolRawStream(messages, {
      syncToFs: false,
      onRawData: (bytes) => void said.push(Buffer.from(bytes)),
    });
    globalThis.setTimeout = setTimeout;
    return Buffer.concat(said);
  }

  /** Returns rows of a statement of the simulation itself; throws the server's error. */
  rows<T>(sql: string, ...params: Value[]): T[] {
    return readRows<T>(this.exec(statement(sql, params)));
  }

  /** Runs statements without parameters. */
  run(sql: string): void {
    readRows(this.exec(message('Q', sql)));
  }

  /** From now on `restore` returns to the current state. */
  keep(): void {
    const memory = this.#pglite.Module.HEAPU8 as Uint8Array;
    let length = memory.length;
    while (length > 0 && memory[length - 1] === 0) length -= 1;
    const bytes = memory.slice(0, length);
    const putFilesBack = keepFiles(this.#files, this.#written);
    this.#putBack = () => {
      // The memory may have grown.
      const now = this.#pglite.Module.HEAPU8 as Uint8Array;
      now.set(bytes);
      now.fill(0, length);
      putFilesBack();
    };
  }

  restore(): void {
    if (this.#putBack === undefined) throw new Error('nothing was kept of the database');
    this.#putBack();
  }
}

function keepFiles(files: FileSystem, written: Set<FileNode>): () => void {
  const folders = new Map<FileNode, Record<string, FileNode>>();
  const kept = new Map<FileNode, { bytes: Uint8Array; usedBytes: number }>();
  const places = new Map<FileNode, Pick<FileNode, 'name' | 'parent'>>();
  const visit = (node: FileNode): void => {
    places.set(node, { name: node.name, parent: node.parent });
    if (files.isFile(node.mode)) {
      const bytes = (node.contents as Uint8Array).slice(0, node.usedBytes);
      kept.set(node, { bytes, usedBytes: node.usedBytes });
    } else if (files.isDir(node.mode)) {
      folders.set(node, { ...(node.contents as Record<string, FileNode>) });
      for (const one of Object.values(node.contents as Record<string, FileNode>)) visit(one);
    }
  };
  visit(files.lookupPath(DATA).node);
  const chains = Array.from(files.nameTable, (first) => chainOf(first));
  const streams = Array.from(files.streams, (stream) => stream && { stream, shared: { ...stream.shared } });
  const { nextInode } = files;
  written.clear();
  return () => {
    for (const [node, place] of places) Object.assign(node, place);
    for (const [folder, contents] of folders) folder.contents = { ...contents };
    for (const node of written) {
      const { bytes, usedBytes } = kept.get(node) ?? {};
      if (bytes) Object.assign(node, { contents: bytes.slice(), usedBytes });
    }
    written.clear();
    for (const [at, chain] of chains.entries()) files.nameTable[at] = linked(chain);
    files.streams.length = streams.length;
    for (const [at, kept] of streams.entries()) {
      // A closed file has lost its number.
      files.streams[at] = kept && Object.assign(kept.stream, { fd: at, shared: { ...kept.shared } });
    }
    files.nextInode = nextInode;
  };
}

/** Returns nodes whose names have the same hash. */
function chainOf(first: FileNode | undefined): FileNode[] {
  const chain: FileNode[] = [];
  for (let node = first; node; node = node.name_next) chain.push(node);
  return chain;
}

function linked(chain: readonly FileNode[]): FileNode | undefined {
  for (const [at, node] of chain.entries()) {
    const next = chain[at + 1];
    if (next) node.name_next = next;
    else delete node.name_next;
  }
  return chain[0];
}
