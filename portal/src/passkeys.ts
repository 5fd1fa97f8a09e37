/** Passkeys in the browser (WebAuthn Level 3): create one, and log in with one. */
import { callerOf, type Person } from './api.ts';

export const hasPasskeys = (): boolean =>
  typeof PublicKeyCredential === 'function' && 'parseRequestOptionsFromJSON' in PublicKeyCredential;

/** Throws the browser's error, for example NotAllowedError if the user cancels. */
export async function signInWithPasskey(): Promise<Person> {
  const options = await callerOf().call('offerPasskeySignIn');
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options as never);
  const credential = (await navigator.credentials.get({ publicKey })) as PublicKeyCredential;
  return callerOf().call('signInWithPasskey', { body: { credential: credential.toJSON() as never } });
}

export async function makePasskey(name: string): Promise<void> {
  const options = await callerOf().call('offerPasskey');
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options as never);
  const credential = (await navigator.credentials.create({ publicKey })) as PublicKeyCredential;
  await callerOf().call('addPasskey', { body: { name, credential: credential.toJSON() as never } });
}
