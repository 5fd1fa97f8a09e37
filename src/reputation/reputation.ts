/** The reputation guard: accounts whose live mail bounces or is complained about too much are warned, and then their mail rests. */
export { startGuard } from './guard.ts';
export { resumeSending } from './resume.ts';
