/**
 * Explains to the operator why this process cannot write to a file or folder: it belongs to another user, as after a change of the user of
 * a container, or its mode forbids it. Changes nothing.
 */
import { type Stats, statSync } from 'node:fs';

const ELSEWHERE = 'or choose another POSTRIDER_DATA_DIR';

export interface Explained {
  why: string;
  remedy: string;
}

/** Explains why `where` cannot be written. The remedy applies to `folder`, which contains it, and to everything in that folder. */
export function notWritable(where: string, folder: string): Explained {
  const [user, group] = [process.getuid?.(), process.getgid?.()];
  const found = stats(where) ?? stats(folder);
  if (user === undefined || found === undefined) {
    return {
      why: `${where} cannot be written by this user`,
      remedy: `change the owner of ${folder} to the user of the service, ${ELSEWHERE}`,
    };
  }
  const { uid, gid, mode } = found;
  if (uid === user) {
    const octal = (mode & 0o777).toString(8).padStart(4, '0');
    return { why: `${where} has the mode ${octal}`, remedy: `run chmod -R u+rwX ${folder}, ${ELSEWHERE}` };
  }
  const chown = `run chown -R ${user}:${group} ${folder}`;
  // Root is not recommended.
  const other = uid === 0 ? ELSEWHERE : `or run Postrider as the user ${uid} (docker run --user ${uid}:${gid})`;
  return {
    why: `${where} belongs to the user ${uid}, but Postrider runs as the user ${user}, which cannot write to it`,
    remedy: `${chown}, ${other}`,
  };
}

function stats(file: string): Stats | undefined {
  try {
    return statSync(file, { throwIfNoEntry: false });
  } catch {
    // A folder above cannot be read.
    return undefined;
  }
}
