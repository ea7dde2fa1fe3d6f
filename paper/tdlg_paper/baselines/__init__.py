"""The methods that the paper compares with, written anew from their papers; `tdlg compare` finds them by entry points."""
