/**
 * A disk whose power can be cut: ext4 in an image file on a loop device, shut down without writing its journal, as xfstests do
 * (EXT4_IOC_SHUTDOWN with NOLOGFLUSH). Data that was only in the page cache or in the running transaction of the journal is lost after the
 * next mount; synced data is kept.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { missing } from './requirements.ts';
import { waitUntil } from './wait-until.ts';

const IMAGE_BYTES = 1024 * 1024 * 1024;
/** Linux: _IOR('X', 125, __u32), and the flag EXT4_GOING_FLAGS_NOLOGFLUSH. */
const SHUTDOWN = '0x8004587d';
const NO_LOG_FLUSH = 2;

/** Opens the folder, waits for a line, and prints the Unix milliseconds before and after the call. */
const CUTTER = `
  use Time::HiRes qw(time);
  $| = 1;
  open(my $folder, '<', $ARGV[0]) or die "open: $!";
  print "ready\\n";
  <STDIN>;
  my $flag = pack('L', ${NO_LOG_FLUSH});
  my $called = time;
  my $done = ioctl($folder, ${SHUTDOWN}, $flag);
  die "ioctl: $!" unless defined $done;
  printf "%.3f %.3f\\n", $called * 1000, time * 1000;
`;

export interface Cut {
  /** Unix milliseconds immediately before and after the system call that shuts the file system down. */
  calledAt: number;
  returnedAt: number;
}

export interface CutDisk {
  /** The mount point. */
  folder: string;
  /** Prepares the cut, so that the cut itself is immediate. */
  prepare(): Promise<{ cut(): Promise<Cut>; release(): void }>;
  /** Unmounts the dead file system and mounts it again. All its users must have ended. */
  remount(): Promise<void>;
  remove(): Promise<void>;
}

const run = (program: string, ...args: string[]): string =>
  execFileSync(program, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
    env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` },
  });

/**
 * False if power can be cut here, otherwise the reason for `{ skip }`. Missing programs are an error in CI, and so is a failure after a
 * loop device was created. Without permission for a loop device (no root, or a container), the test is skipped in CI too.
 */
export function cannotCutPower(): string | false {
  const absent = missing('losetup', 'mkfs.ext4', 'mount', 'umount', 'perl');
  if (absent) return absent;
  const image = path.join(os.tmpdir(), `postrider-probe-${process.pid}.img`);
  try {
    run('truncate', '-s', String(1024 * 1024), image);
    const device = run('losetup', '--find', '--show', image).trim();
    run('losetup', '--detach', device);
    return false;
  } catch (error) {
    return `this user gets no loop device: ${(error as Error).message.trim().split('\n').at(-1)}`;
  } finally {
    rmSync(image, { force: true });
  }
}

export function cutDisk(): CutDisk {
  const place = mkdtempSync(path.join(os.tmpdir(), 'postrider-cut-'));
  const image = `${place}.img`;
  const mount = (): void => void run('mount', '-o', 'loop', '-t', 'ext4', image, place);
  const unmount = (): Promise<boolean> =>
    waitUntil('the disk to be released', () => {
      try {
        run('umount', place);
        return true;
      } catch (error) {
        if (/not mounted/.test((error as Error).message)) return true;
        return false;
      }
    });
  try {
    run('truncate', '-s', String(IMAGE_BYTES), image);
    run('mkfs.ext4', '-q', '-F', image);
    mount();
  } catch (error) {
    rmSync(image, { force: true });
    rmdirSync(place);
    throw error;
  }
  return {
    folder: path.join(place, 'data'),
    prepare: async () => {
      const cutter = spawn('perl', ['-e', CUTTER, place], { stdio: ['pipe', 'pipe', 'inherit'] });
      await line(cutter);
      return {
        cut: async () => {
          cutter.stdin.end('\n');
          const [calledAt, returnedAt] = (await line(cutter)).split(' ').map(Number) as [number, number];
          await ended(cutter);
          return { calledAt, returnedAt };
        },
        release: () => void cutter.kill('SIGKILL'),
      };
    },
    remount: async () => {
      await unmount();
      mount();
    },
    remove: async () => {
      await unmount();
      rmSync(image, { force: true });
      rmdirSync(place);
    },
  };
}

async function line(child: ChildProcess): Promise<string> {
  const gone = once(child, 'close').then(() => {
    throw new Error('the cutter exited without a message');
  });
  gone.catch(() => undefined);
  const [text] = (await Promise.race([once(child.stdout!, 'data'), gone])) as [Buffer];
  return text.toString().trim();
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}
