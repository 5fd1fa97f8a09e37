/**
 * Signs SHA256SUMS with the program minisign, so that users can check who published a release. The same key, file, and time give the same
 * bytes. The key file stays with the releaser: Postrider contains neither the secret key nor its password.
 */
import { execFileSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import path from 'node:path';

/** Throws with a message if the key file or minisign is missing, so that a release fails before it is built. */
export function checkSigner(key: string): void {
  try {
    accessSync(key, constants.R_OK);
  } catch (error) {
    throw new Error(`--sign must be the file of a minisign secret key. ${(error as Error).message}.`);
  }
  try {
    execFileSync('minisign', ['-v'], { stdio: 'ignore' });
  } catch (error) {
    throw new Error(`--sign needs the program minisign: apt install minisign. ${(error as Error).message}.`);
  }
}

/**
 * Writes the signature next to the file, with the ending `.minisig`. `epoch` is the time in its trusted comment, in seconds since 1970. If
 * the key is encrypted and `password` is undefined, minisign asks for the password in the terminal.
 */
export function sign(file: string, options: { key: string; epoch: number; password?: string | undefined }): void {
  const { key, epoch, password } = options;
  const comment = `timestamp:${epoch}\tfile:${path.basename(file)}\thashed`;
  const { MINISIGN_PASSWORD: _, ...env } = process.env;
  try {
    execFileSync('minisign', ['-S', '-s', key, '-m', file, '-t', comment], {
      env,
      ...(password === undefined ? { stdio: 'inherit' } : { input: `${password}\n`, stdio: 'pipe' }),
    });
  } catch (error) {
    const printed = String((error as { stderr?: Buffer | null }).stderr ?? '').trim();
    throw new Error(
      `minisign could not sign ${file}.${printed && ` It printed: ${printed}.`} Check the key and MINISIGN_PASSWORD. To sign without another ` +
        `build, run: minisign -S -s ${key} -m ${file}`,
    );
  }
}
