/**
 * What root makes in the directory of another user belongs to that user: a restore, or a command beside a service, run as root,
 * must not leave files that the service may not open. For any other user there is nothing to do. Links are not followed.
 */
import { lchownSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';

/** Gives these, which lie in the directory, to the directory's owner. */
export function giveToOwner(directory: string, made: readonly string[]): void {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(directory);
  if (uid === 0) return;
  for (const one of made) lchownSync(one, uid, gid);
}

/** The same for all that lies in the directory and below these folders. */
export function giveAllToOwner(directory: string, folders: readonly string[]): void {
  const below = [directory, ...folders].flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true }).map((one) => path.join(one.parentPath, one.name)),
  );
  giveToOwner(directory, [...folders, ...below]);
}
