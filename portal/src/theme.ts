/**
 * The theme of the portal: its own grays, one accent (petrol), the system's font, 13 px text in compact rows, tabular figures. Colors with a meaning are
 * variables in theme.css for light and dark mode, each with sufficient contrast (WCAG AA).
 */
import { type CSSVariablesResolver, createTheme, type MantineColorsTuple } from '@mantine/core';

const petrol: MantineColorsTuple = [
  ...(['#e9f5f5', '#d3e8e9', '#a5d1d4', '#74b8bd', '#4ca3aa'] as const),
  ...(['#33959d', '#1d7f88', '#0f6b74', '#075a62', '#00474e'] as const),
] as unknown as MantineColorsTuple;

const gray: MantineColorsTuple = [
  ...(['#f8f8f6', '#f1f1ee', '#e6e6e2', '#d9d9d4', '#c3c3bd'] as const),
  ...(['#9b9b95', '#6b6b66', '#4d4d49', '#33332f', '#1c1c1a'] as const),
] as unknown as MantineColorsTuple;

const dark: MantineColorsTuple = [
  ...(['#dcddda', '#b4b6b2', '#969994', '#6a6e69', '#3d413e'] as const),
  ...(['#303431', '#262a28', '#1c1f1e', '#151817', '#0f1110'] as const),
] as unknown as MantineColorsTuple;

/** Larger than the headings in a dialog. */
const TITLE = { title: { fontSize: '1rem', fontWeight: 600 } };

export const theme = createTheme({
  colors: { petrol, gray, dark },
  primaryColor: 'petrol',
  primaryShade: { light: 7, dark: 6 },
  autoContrast: true,
  defaultRadius: 6,
  fontFamily: 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif',
  fontFamilyMonospace: 'ui-monospace, "SF Mono", "Cascadia Mono", "JetBrains Mono", Menlo, Consolas, monospace',
  fontSizes: { xs: '0.75rem', sm: '0.8125rem', md: '0.8125rem', lg: '1rem', xl: '1.25rem' },
  lineHeights: { xs: '1.4', sm: '1.45', md: '1.5', lg: '1.5', xl: '1.4' },
  spacing: { xs: '0.375rem', sm: '0.625rem', md: '0.875rem', lg: '1.25rem', xl: '2rem' },
  headings: {
    fontWeight: '600',
    sizes: {
      h1: { fontSize: '1.25rem', lineHeight: '1.3' },
      h2: { fontSize: '1rem', lineHeight: '1.4' },
      h3: { fontSize: '0.875rem', lineHeight: '1.4' },
    },
  },
  respectReducedMotion: true,
  cursorType: 'pointer',
  components: {
    Button: { defaultProps: { size: 'compact-md', fw: 550 } },
    ActionIcon: { defaultProps: { variant: 'subtle', color: 'gray' } },
    TextInput: { defaultProps: { size: 'sm' } },
    PasswordInput: { defaultProps: { size: 'sm' } },
    Textarea: { defaultProps: { size: 'sm' } },
    NumberInput: { defaultProps: { size: 'sm' } },
    Select: { defaultProps: { size: 'sm', allowDeselect: false } },
    SegmentedControl: { defaultProps: { size: 'xs' } },
    Anchor: { defaultProps: { underline: 'always' } },
    Tooltip: { defaultProps: { openDelay: 300, withArrow: false } },
    Modal: { defaultProps: { centered: true, closeButtonProps: { 'aria-label': 'Close' } }, styles: TITLE },
    Notification: { defaultProps: { closeButtonProps: { 'aria-label': 'Close' } } },
    Drawer: { defaultProps: { closeButtonProps: { 'aria-label': 'Close' } }, styles: TITLE },
    // Inside the landmark of its button, and with menu items only, as screen readers expect.
    Menu: { defaultProps: { withinPortal: false, withInitialFocusPlaceholder: false } },
    Table: { defaultProps: { verticalSpacing: 6, horizontalSpacing: 10 } },
  },
});

/** For cases in which Mantine's default has too little contrast. */
export const cssVariables: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    '--mantine-color-body': '#fdfdfc',
    '--mantine-color-text': '#1c1c1a',
    '--mantine-color-dimmed': '#5c5c57',
    '--mantine-color-placeholder': '#6b6b66',
    '--mantine-color-anchor': '#075a62',
    '--mantine-color-error': '#b3261e',
    '--mantine-color-default-border': '#d9d9d4',
  },
  dark: {
    '--mantine-color-body': '#151817',
    '--mantine-color-text': '#e8e9e6',
    '--mantine-color-dimmed': '#a3a6a1',
    '--mantine-color-placeholder': '#969994',
    '--mantine-color-anchor': '#74b8bd',
    '--mantine-color-error': '#ff8a80',
    '--mantine-color-default-border': '#3d413e',
  },
});
