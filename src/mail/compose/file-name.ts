/**
 * Names of files as a mail shows them: which text may be one. A name is shown to a person and stands in a header; it is never a
 * path. Whatever could leave a directory, break out of a header, or show another name than the one that is opened is refused.
 */
import { hasForbiddenControl } from './header.ts';

export const MAX_FILE_NAME_BYTES = 255;

/** Embeddings, overrides and isolates of Unicode's bidirectional algorithm: `fdp.exe` is shown as `exe.pdf` behind one. */
const DIRECTION_CONTROLS = /[\u202a-\u202e\u2066-\u2069]/;

/**
 * Characters that nobody sees and that no script needs within a word; the joiners and the marks of right-to-left scripts are not among
 * them, nor what makes emoji.
 */
const INVISIBLE =
  /[\u00ad\u115f\u1160\u180e\u200b\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e001f}]|\u034f|\u17b4|\u17b5/u;

/** Why the text may not be the name of a file, as the end of a sentence that starts with its field; undefined when it may. */
export function fileNameIssue(name: string): string | undefined {
  if (name.trim() === '') return 'must not be empty';
  if (Buffer.byteLength(name) > MAX_FILE_NAME_BYTES) return `must be at most ${MAX_FILE_NAME_BYTES} bytes long`;
  if (name.includes('/') || name.includes('\\')) return 'must be a name without / and \\';
  if (name === '.' || name === '..') return 'must be the name of a file, not of a folder';
  if (hasForbiddenControl(name) || /[\t\u0080-\u009f]/.test(name))
    return 'has a line break or another control character';
  if (DIRECTION_CONTROLS.test(name)) return 'has a control character that turns the direction of writing';
  if (INVISIBLE.test(name)) return 'has an invisible character';
  if (/:\$[a-z_]+[. ]*$/i.test(name)) return 'names a stream of a file (:$DATA), and not a file';
  return undefined;
}
