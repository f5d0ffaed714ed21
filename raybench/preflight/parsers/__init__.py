"""What programs on a host print, as data. Every function is total: what it does not know it leaves out."""
