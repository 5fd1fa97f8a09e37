/**
 * The sandbox: mail that is accepted as if it were live and never leaves. Which outcome a message plays is decided here.
 */
export {
  type SandboxOutcome,
  type SandboxPlay,
  sandboxPlay,
} from './outcomes.ts';
