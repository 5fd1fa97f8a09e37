/**
 * The simulated disk for content: files and folders, with the part that is on stable storage, and the part that is only in memory. After a
 * power cut the seed decides which unsynced sectors, names and folders remain; a kill keeps all of them. Only the functions of
 * node:fs/promises that the product uses exist.
 */
import fsPromises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import path from 'node:path';
import { Readable } from 'node:stream';
import { here } from './globals.ts';
import type { Random } from './random.ts';
import type { Timeline } from './timeline.ts';
import { torn } from './torn-writes.ts';

const ROOT = '/simulated';
/** Created and synced before the first start. */
const MADE = [ROOT, `${ROOT}/blobs`];
/** Deadline for removing what a failed write left. */
const SOON_MS = 5_000;

interface File {
  bytes: Buffer;
  /** This many bytes survive a power cut for sure. */
  syncedBytes: number;
  changedAtMs: number;
  inode: number;
}

const keyOf = (name: string): string | undefined => /\/blobs\/(..\/[\w-]+)$/.exec(name)?.[1];

const fault = (code: string, at: string): Error => Object.assign(new Error(`${code}: ${at}`), { code });

export class Disk {
  readonly #timeline: Timeline;
  readonly #random: Random;
  /** As the machine sees it. */
  readonly files = new Map<string, File>();
  readonly folders = new Set<string>(MADE);
  /** Names on stable storage. */
  #durable = new Map<string, File>();
  readonly #durableFolders = new Set<string>(MADE);
  #inode = 1;
  /** No more bytes fit, and not every name. */
  isFull = false;
  /** The share of reads, writes, renames and syncs that fail with EIO. */
  errorShare = 0;
  /** Called with the key of each blob that gets its name. */
  onBlob: (key: string) => void = () => undefined;
  /** Names of files with failed writes that still existed long after. */
  readonly left: string[] = [];

  readonly #count: (what: string) => void;

  constructor(timeline: Timeline, random: Random, count: (what: string) => void = () => undefined) {
    this.#timeline = timeline;
    this.#random = random;
    this.#count = count;
  }

  /** Runs something after a delay, unless the process dies first. */
  #later<T>(label: string, run: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#timeline.after(this.#random.between(0.05, 2), `disk ${label}`, () => {
        try {
          resolve(run());
        } catch (error) {
          reject(error as Error);
        }
      });
    });
  }

  /** A full disk refuses this share of operations that need little space. */
  #needsRoom(at: string, share: number): void {
    if (this.isFull && this.#random.chance(share)) throw this.#noRoom(at);
  }

  /** A process whose write failed must remove the file, unless it dies first. */
  #isToGo(at: string, file: File): void {
    const { process, world, nowMs } = this.#timeline;
    const look = (): void => {
      const stoodStill = (process.frozenUntilMs ?? 0) > nowMs;
      if (this.files.get(at) === file && !process.isDead && !stoodStill) this.left.push(at);
    };
    this.#timeline.after(SOON_MS, 'disk looked at', look, world);
  }

  /** Fails if a sector cannot be read or written. */
  #needsHealth(at: string): void {
    if (this.errorShare === 0 || !this.#random.chance(this.errorShare)) return;
    this.#count('disk I/O error');
    throw fault('EIO', at);
  }

  #noRoom(at: string): Error {
    this.#count('write rejected by a full disk');
    return fault('ENOSPC', at);
  }

  #get(at: string): File {
    const file = this.files.get(at);
    if (file === undefined) throw fault('ENOENT', at);
    return file;
  }

  open(at: string, flags: string) {
    return this.#later('open', () => {
      if (this.folders.has(at)) return this.#folder(at);
      if (flags === 'wx') {
        this.#needsRoom(at, 0.3);
        if (this.files.has(at)) throw fault('EEXIST', at);
        if (!this.folders.has(path.dirname(at))) throw fault('ENOENT', at);
        const made = { bytes: Buffer.alloc(0), syncedBytes: 0, changedAtMs: Date.now(), inode: this.#inode++ };
        this.files.set(at, made);
      }
      return this.#handle(at, this.#get(at));
    });
  }

  #folder(at: string) {
    const sync = () =>
      this.#later('sync folder', () => {
        this.#needsHealth(at);
        const isIn = (one: string): boolean => path.dirname(one) === at;
        for (const one of [...this.#durable.keys()]) if (isIn(one) && !this.files.has(one)) this.#durable.delete(one);
        for (const [one, file] of this.files) if (isIn(one)) this.#durable.set(one, file);
        for (const one of this.folders) if (isIn(one)) this.#durableFolders.add(one);
      });
    return { sync, close: () => Promise.resolve() };
  }

  #handle(at: string, file: File) {
    let position = 0;
    const sync = () =>
      this.#later('sync', () => {
        this.#needsHealth(at);
        file.syncedBytes = file.bytes.length;
      });
    return {
      writeFile: (content: Uint8Array | string) => {
        // Copied immediately: the caller may reuse its memory.
        const piece = Buffer.from(content as Uint8Array);
        return this.#later('write', () => {
          this.#needsHealth(at);
          // What still fits is written before the disk reports that it is full.
          const taken = this.isFull ? piece.subarray(0, this.#random.below(piece.length)) : piece;
          file.bytes = Buffer.concat([file.bytes, taken]);
          file.changedAtMs = Date.now();
          if (!this.isFull) return;
          this.#isToGo(at, file);
          throw this.#noRoom(at);
        });
      },
      read: (into: Buffer, offset: number, length: number) =>
        this.#later('read', () => {
          this.#needsHealth(at);
          const bytesRead = file.bytes.copy(into, offset, position, position + length);
          position += bytesRead;
          return { bytesRead };
        }),
      sync,
      datasync: sync,
      close: () => this.#later('close', () => undefined),
      stat: () => this.#later('stat', () => ({ mtimeMs: file.changedAtMs, size: file.bytes.length })),
      createReadStream: () => Readable.from([Buffer.from(file.bytes)]),
    };
  }

  readFile(at: string, encoding?: string) {
    return this.#later('read file', () => {
      this.#needsHealth(at);
      const { bytes } = this.#get(at);
      return encoding === undefined ? Buffer.from(bytes) : bytes.toString('utf8');
    });
  }

  mkdir(at: string) {
    return this.#later('mkdir', () => {
      if (!this.folders.has(at)) this.#needsRoom(at, 0.3);
      for (let one = at; one.startsWith(`${ROOT}/`); one = path.dirname(one)) this.folders.add(one);
    });
  }

  readdir(at: string) {
    return this.#later('readdir', () => {
      if (!this.folders.has(at)) throw fault('ENOENT', at);
      return [...this.folders, ...this.files.keys()]
        .filter((one) => path.dirname(one) === at)
        .map((one) => path.basename(one));
    });
  }

  rename(from: string, to: string) {
    return this.#later('rename', () => {
      const file = this.#get(from);
      this.#needsHealth(from);
      this.files.delete(from);
      this.files.set(to, file);
      const key = keyOf(to);
      if (key !== undefined) this.onBlob(key);
    });
  }

  unlink(at: string) {
    return this.#later('unlink', () => {
      this.#get(at);
      this.files.delete(at);
    });
  }

  stat(at: string) {
    // Called ten times a second; SQLite's files are elsewhere.
    if (at.endsWith('-wal')) return Promise.resolve(here().threads.logOf());
    return this.#later('stat', () => {
      const { bytes, changedAtMs, inode } = this.#get(at);
      return { size: bytes.length, mtimeMs: changedAtMs, ino: inode, mtimeNs: changedAtMs, ctimeNs: changedAtMs };
    });
  }

  /** Returns the stored blobs by key. */
  blobs(): Map<string, Buffer> {
    const found = new Map<string, Buffer>();
    for (const [name, { bytes }] of this.files) {
      const key = keyOf(name);
      if (key !== undefined) found.set(key, bytes);
    }
    return found;
  }

  /** Flips one bit of this blob, or of any blob; returns false if there is none. */
  flip(key?: string): boolean {
    const random = this.#random;
    const blobs = [...this.files].filter(
      ([name, { bytes }]) =>
        bytes.length > 0 && (key === undefined ? /\/blobs\/..\//.test(name) : name.endsWith(`/${key}`)),
    );
    if (blobs.length === 0) return false;
    const [, file] = random.pick(blobs);
    const bytes = Buffer.from(file.bytes);
    const at = random.below(bytes.length);
    bytes[at] = bytes[at]! ^ (1 << random.below(8));
    file.bytes = bytes;
    return true;
  }

  /** Each unsynced folder, name and sector is kept or lost independently. */
  cutPower(): void {
    const random = this.#random;
    const lost = [...this.folders].filter((one) => !this.#durableFolders.has(one) && random.chance(0.5));
    for (const one of lost) this.folders.delete(one);
    for (const one of this.folders) this.#durableFolders.add(one);
    const names = new Set([...this.files.keys(), ...this.#durable.keys()]);
    const left = new Map<string, File>();
    for (const name of [...names].sort()) {
      const [now, then] = [this.files.get(name), this.#durable.get(name)];
      const file = now === then || random.chance(0.5) ? now : then;
      if (file && this.folders.has(path.dirname(name))) left.set(name, file);
    }
    for (const file of left.values()) {
      file.bytes = torn(file.bytes, file.syncedBytes, random);
      file.syncedBytes = file.bytes.length;
    }
    this.files.clear();
    for (const [name, file] of left) this.files.set(name, file);
    this.#durable = new Map(left);
  }
}

type Door = (...args: never[]) => unknown;

const NAMES = ['mkdir', 'open', 'readdir', 'readFile', 'rename', 'stat', 'unlink'] as const;
const led = (name: (typeof NAMES)[number]): [string, Door] => [
  name,
  (...args) => (here().disk[name] as Door).apply(here().disk, args),
];
Object.assign(fsPromises, Object.fromEntries(NAMES.map(led)));
syncBuiltinESMExports();
